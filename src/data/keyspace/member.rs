//! A member of a set or a sorted set.

use super::indexed::Keyed;

/// The longest member that is stored inline.
const SHORT: usize = 22;

/// A member's bytes. Short ones are stored inline, so that comparing them needs no further memory access.
#[derive(Clone)]
pub struct Member(Form);

#[derive(Clone)]
enum Form {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Box<[u8]>),
}

impl Member {
    #[inline]
    pub fn new(member: &[u8]) -> Self {
        if member.len() > SHORT {
            return Self(Form::Long(member.into()));
        }
        let mut bytes = [0; SHORT];
        bytes[..member.len()].copy_from_slice(member);
        Self(Form::Short { length: member.len() as u8, bytes })
    }

    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Form::Short { length, bytes } => &bytes[..usize::from(*length).min(SHORT)],
            Form::Long(bytes) => bytes,
        }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        match self.0 {
            Form::Long(bytes) => bytes.into_vec(),
            Form::Short { .. } => self.as_bytes().to_vec(),
        }
    }
}

impl Keyed for Member {
    #[inline]
    fn key(&self) -> &[u8] {
        self.as_bytes()
    }

    #[inline]
    fn outside(&self) -> usize {
        match &self.0 {
            Form::Short { .. } => 0,
            Form::Long(bytes) => bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_keeps_its_bytes_whatever_their_number() {
        assert_eq!(size_of::<Member>(), 24);
        for length in [0, 1, SHORT, SHORT + 1, 1000] {
            let bytes: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let member = Member::new(&bytes);
            assert_eq!(member.as_bytes(), bytes);
            assert_eq!(member.outside(), if length > SHORT { length } else { 0 });
            assert_eq!(member.into_bytes(), bytes);
        }
    }
}
