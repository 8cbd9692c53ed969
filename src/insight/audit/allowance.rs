//! Findings that are known and allowed, with the reason.

use super::code::Code;
use super::finding::Finding;
use crate::base::glob;

/// A kind of finding that is allowed for some keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Every kind if `None`.
    pub code: Option<Code>,
    /// A glob for keys.
    pub keys: Vec<u8>,
    /// The reason; never empty.
    pub reason: String,
}

impl Allowance {
    /// Parses `CODE GLOB REASON...`; the code `*` stands for every kind. The error says what is wrong.
    pub fn parse(line: &str) -> Result<Self, String> {
        let (code, rest) = split(line);
        let (keys, reason) = split(rest);
        let code = match code {
            "*" => None,
            name => Some(
                Code::by_name(name.as_bytes())
                    .ok_or_else(|| format!("there is no finding '{}'", name.escape_debug()))?,
            ),
        };
        if keys.is_empty() || reason.is_empty() {
            let missing = if keys.is_empty() { "glob and no reason" } else { "reason" };
            return Err(format!("'{}' has no {missing}; CODE GLOB REASON was expected", line.trim().escape_debug()));
        }
        Ok(Self { code, keys: keys.as_bytes().to_vec(), reason: reason.to_owned() })
    }

    /// Whether it allows a finding.
    pub fn covers(&self, finding: &Finding) -> bool {
        self.code.is_none_or(|code| code == finding.code) && glob::matches(&self.keys, &finding.key, false)
    }
}

/// The first word, and the rest.
fn split(text: &str) -> (&str, &str) {
    let (word, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    (word, rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_has_a_code_a_glob_and_a_reason() {
        let parsed = Allowance::parse("  no-expiry  leader:*   one leader for ever ").unwrap();
        assert_eq!(parsed.code, Some(Code::NoExpiry));
        assert_eq!((parsed.keys.as_slice(), parsed.reason.as_str()), (&b"leader:*"[..], "one leader for ever"));
        assert_eq!(Allowance::parse("* tests:* on purpose").unwrap().code, None);
        assert_eq!(Allowance::parse("no-expire a b"), Err("there is no finding 'no-expire'".to_owned()));
        assert!(Allowance::parse("no-expiry leader:*").unwrap_err().contains("has no reason"));
        assert!(Allowance::parse("no-expiry").unwrap_err().contains("has no glob"));
    }
}
