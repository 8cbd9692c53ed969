//! Rewrites a script so that it can run with unknown values.
//!
//! Lua 5.1 lets a value of a library define its arithmetic, but not how it compares with a string or a number. So comparisons,
//! lengths, keys of tables and the bounds of loops become calls. Nothing else changes, and lines stay where they are.

use crate::script::tokens::{Token, TokenKind, tokens};

/// The functions that rewritten code calls.
pub const EQUAL: &str = "__redouble_equal";
pub const LESS: &str = "__redouble_less";
pub const LESS_OR_EQUAL: &str = "__redouble_less_or_equal";
pub const GREATER: &str = "__redouble_greater";
pub const GREATER_OR_EQUAL: &str = "__redouble_greater_or_equal";
pub const LENGTH: &str = "__redouble_length";
/// Gives back its argument, which must be known.
pub const KNOWN: &str = "__redouble_known";

/// How deeply expressions and blocks can be nested: Lua allows 200.
const MOST_DEPTH: usize = 200;

/// The rewritten text. `None` if it is no Lua 5.1.
pub fn rewritten(source: &[u8]) -> Option<Vec<u8>> {
    let mut parser = Parser { tokens: tokens(source)?, at: 0, depth: 0, edits: Vec::new() };
    parser.block()?;
    (parser.kind() == TokenKind::End).then_some(())?;
    let mut edits = parser.edits;
    // At one place: what ends there, then what begins there, the outermost first.
    edits.sort_by_key(|edit| (edit.start, edit.rank));
    let (mut out, mut copied) = (Vec::with_capacity(source.len() * 2), 0);
    for edit in edits {
        out.extend_from_slice(&source[copied..edit.start]);
        out.extend_from_slice(edit.text.as_bytes());
        copied = edit.end;
    }
    out.extend_from_slice(&source[copied..]);
    Some(out)
}

/// Text that replaces a stretch of the source, which can be empty.
struct Edit {
    start: usize,
    end: usize,
    rank: i32,
    text: String,
}

struct Parser<'s> {
    tokens: Vec<Token<'s>>,
    at: usize,
    depth: usize,
    edits: Vec<Edit>,
}

/// The priority of `not`, `-` and `#`.
const UNARY: u8 = 8;

impl<'s> Parser<'s> {
    fn token(&self) -> Token<'s> {
        self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn kind(&self) -> TokenKind<'s> {
        self.token().kind
    }

    fn next(&mut self) -> Token<'s> {
        let token = self.token();
        self.at += 1;
        token
    }

    /// The end of the token before.
    fn last_end(&self) -> usize {
        self.tokens[self.at - 1].end
    }

    fn is(&self, text: &str) -> bool {
        match self.kind() {
            TokenKind::Word(word) => word == text.as_bytes(),
            TokenKind::Symbol(symbol) => symbol == text,
            _ => false,
        }
    }

    /// Takes the token if it is this one.
    fn takes(&mut self, text: &str) -> bool {
        let is = self.is(text);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, text: &str) -> Option<()> {
        self.takes(text).then_some(())
    }

    fn name(&mut self) -> Option<()> {
        match self.next().kind {
            TokenKind::Word(word) if !is_keyword(word) => Some(()),
            _ => None,
        }
    }

    // ---- edits

    fn begin_call(&mut self, at: usize, function: &str) {
        let rank = -i32::try_from(self.edits.len()).unwrap_or(i32::MAX);
        // Those that end at this place come first, whatever their number.
        self.edits.push(Edit { start: at, end: at, rank: rank.saturating_add(i32::MAX), text: format!("{function}(") });
    }

    fn end_call(&mut self, text: &str) {
        let at = self.last_end();
        self.edits.push(Edit { start: at, end: at, rank: i32::MIN, text: text.to_owned() });
    }

    fn replace(&mut self, token: Token<'_>, text: &str) {
        self.edits.push(Edit { start: token.start, end: token.end, rank: i32::MAX, text: text.to_owned() });
    }

    // ---- statements

    fn deeper<R>(&mut self, parse: impl FnOnce(&mut Self) -> Option<R>) -> Option<R> {
        if self.depth >= MOST_DEPTH {
            return None;
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn block(&mut self) -> Option<()> {
        self.deeper(|parser| {
            loop {
                while parser.takes(";") {}
                let ends = ["end", "else", "elseif", "until"].iter().any(|end| parser.is(end));
                if ends || parser.kind() == TokenKind::End {
                    return Some(());
                }
                if parser.takes("return") {
                    let ends = ["end", "else", "elseif", "until", ";"].iter().any(|end| parser.is(end));
                    if !ends && parser.kind() != TokenKind::End {
                        parser.expressions()?;
                    }
                    parser.takes(";");
                    return Some(());
                }
                parser.statement()?;
            }
        })
    }

    fn statement(&mut self) -> Option<()> {
        if self.takes("if") {
            self.expression()?;
            self.expect("then")?;
            self.block()?;
            while self.takes("elseif") {
                self.expression()?;
                self.expect("then")?;
                self.block()?;
            }
            if self.takes("else") {
                self.block()?;
            }
            return self.expect("end");
        }
        if self.takes("while") {
            self.expression()?;
            return self.do_block();
        }
        if self.is("do") {
            return self.do_block();
        }
        if self.takes("for") {
            return self.for_loop();
        }
        if self.takes("repeat") {
            self.block()?;
            self.expect("until")?;
            return self.expression();
        }
        if self.takes("function") {
            self.name()?;
            while self.takes(".") {
                self.name()?;
            }
            if self.takes(":") {
                self.name()?;
            }
            return self.function_body();
        }
        if self.takes("local") {
            if self.takes("function") {
                self.name()?;
                return self.function_body();
            }
            self.names()?;
            return if self.takes("=") { self.expressions() } else { Some(()) };
        }
        if self.takes("break") {
            return Some(());
        }
        self.suffixed()?;
        if self.is("=") || self.is(",") {
            while self.takes(",") {
                self.suffixed()?;
            }
            self.expect("=")?;
            return self.expressions();
        }
        Some(())
    }

    fn do_block(&mut self) -> Option<()> {
        self.expect("do")?;
        self.block()?;
        self.expect("end")
    }

    fn for_loop(&mut self) -> Option<()> {
        self.names()?;
        if self.takes("=") {
            self.known_expression()?;
            while self.takes(",") {
                self.known_expression()?;
            }
        } else {
            self.expect("in")?;
            self.expressions()?;
        }
        self.do_block()
    }

    fn names(&mut self) -> Option<()> {
        self.name()?;
        while self.takes(",") {
            self.name()?;
        }
        Some(())
    }

    fn function_body(&mut self) -> Option<()> {
        self.expect("(")?;
        while !self.takes(")") {
            if !self.takes("...") {
                self.name()?;
            }
            if !self.is(")") {
                self.expect(",")?;
            }
        }
        self.block()?;
        self.expect("end")
    }

    // ---- expressions

    fn expressions(&mut self) -> Option<()> {
        self.expression()?;
        while self.takes(",") {
            self.expression()?;
        }
        Some(())
    }

    fn expression(&mut self) -> Option<()> {
        self.above(0)
    }

    /// An expression whose value the code needs to know.
    fn known_expression(&mut self) -> Option<()> {
        let (start, first) = (self.token().start, self.at);
        self.expression()?;
        let is_literal =
            self.at == first + 1 && matches!(self.tokens[first].kind, TokenKind::Number | TokenKind::String);
        if !is_literal {
            self.begin_call(start, KNOWN);
            self.end_call(")");
        }
        Some(())
    }

    /// An expression of operators that bind closer than a limit.
    fn above(&mut self, limit: u8) -> Option<()> {
        self.deeper(|parser| {
            let first = parser.token();
            if parser.takes("not") || parser.takes("-") {
                parser.above(UNARY)?;
            } else if parser.takes("#") {
                parser.replace(first, &format!(" {LENGTH}("));
                parser.above(UNARY)?;
                parser.end_call(")");
            } else {
                parser.simple()?;
            }
            while let Some((left, right)) = priorities(parser.kind()).filter(|(left, _)| *left > limit) {
                let operator = parser.next();
                parser.above(right)?;
                let function = match operator.kind {
                    TokenKind::Symbol("==") => EQUAL,
                    TokenKind::Symbol("~=") => {
                        parser.replace(operator, ",");
                        parser.begin_call(first.start, &format!("(not {EQUAL}"));
                        parser.end_call("))");
                        continue;
                    }
                    TokenKind::Symbol("<") => LESS,
                    TokenKind::Symbol("<=") => LESS_OR_EQUAL,
                    TokenKind::Symbol(">") => GREATER,
                    TokenKind::Symbol(">=") => GREATER_OR_EQUAL,
                    _ => continue,
                };
                debug_assert_eq!(left, COMPARISON);
                parser.replace(operator, ",");
                parser.begin_call(first.start, function);
                parser.end_call(")");
            }
            Some(())
        })
    }

    fn simple(&mut self) -> Option<()> {
        match self.kind() {
            TokenKind::Number | TokenKind::String | TokenKind::Symbol("...") => {
                self.at += 1;
                Some(())
            }
            TokenKind::Word(b"nil" | b"true" | b"false") => {
                self.at += 1;
                Some(())
            }
            TokenKind::Word(b"function") => {
                self.at += 1;
                self.function_body()
            }
            TokenKind::Symbol("{") => self.table(),
            _ => self.suffixed(),
        }
    }

    fn suffixed(&mut self) -> Option<()> {
        if self.takes("(") {
            self.expression()?;
            self.expect(")")?;
        } else {
            self.name()?;
        }
        loop {
            match self.kind() {
                TokenKind::Symbol(".") => {
                    self.at += 1;
                    self.name()?;
                }
                TokenKind::Symbol("[") => {
                    self.at += 1;
                    self.known_expression()?;
                    self.expect("]")?;
                }
                TokenKind::Symbol(":") => {
                    self.at += 1;
                    self.name()?;
                    self.arguments()?;
                }
                TokenKind::Symbol("(" | "{") | TokenKind::String => self.arguments()?,
                _ => return Some(()),
            }
        }
    }

    fn arguments(&mut self) -> Option<()> {
        match self.kind() {
            TokenKind::String => {
                self.at += 1;
                Some(())
            }
            TokenKind::Symbol("{") => self.table(),
            _ => {
                self.expect("(")?;
                if !self.is(")") {
                    self.expressions()?;
                }
                self.expect(")")
            }
        }
    }

    fn table(&mut self) -> Option<()> {
        self.expect("{")?;
        while !self.takes("}") {
            if self.takes("[") {
                self.known_expression()?;
                self.expect("]")?;
                self.expect("=")?;
            } else if matches!(self.kind(), TokenKind::Word(_))
                && self.tokens.get(self.at + 1).is_some_and(|next| next.kind == TokenKind::Symbol("="))
            {
                self.name()?;
                self.expect("=")?;
            }
            self.expression()?;
            if !self.is("}") && !self.takes(",") {
                self.expect(";")?;
            }
        }
        Some(())
    }
}

const COMPARISON: u8 = 3;

/// How closely an operator binds its left and its right side.
fn priorities(operator: TokenKind<'_>) -> Option<(u8, u8)> {
    Some(match operator {
        TokenKind::Symbol("^") => (10, 9),
        TokenKind::Symbol("*" | "/" | "%") => (7, 7),
        TokenKind::Symbol("+" | "-") => (6, 6),
        TokenKind::Symbol("..") => (5, 4),
        TokenKind::Symbol("==" | "~=" | "<" | "<=" | ">" | ">=") => (COMPARISON, COMPARISON),
        TokenKind::Word(b"and") => (2, 2),
        TokenKind::Word(b"or") => (1, 1),
        _ => return None,
    })
}

fn is_keyword(word: &[u8]) -> bool {
    const KEYWORDS: &[&[u8]] = &[
        b"and",
        b"break",
        b"do",
        b"else",
        b"elseif",
        b"end",
        b"false",
        b"for",
        b"function",
        b"if",
        b"in",
        b"local",
        b"nil",
        b"not",
        b"or",
        b"repeat",
        b"return",
        b"then",
        b"true",
        b"until",
        b"while",
    ];
    KEYWORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rewritten text, with short names.
    fn short(source: &str) -> Option<String> {
        let mut text = String::from_utf8(rewritten(source.as_bytes())?).unwrap();
        let names = [
            (GREATER_OR_EQUAL, "GE"),
            (LESS_OR_EQUAL, "LE"),
            (GREATER, "GT"),
            (LESS, "LT"),
            (EQUAL, "EQ"),
            (LENGTH, "LEN"),
            (KNOWN, "K"),
        ];
        for (name, short) in names {
            text = text.replace(name, short);
        }
        Some(text)
    }

    #[test]
    fn comparisons_become_calls_with_the_same_operands() {
        for (source, expected) in [
            ("return a==b", "return EQ(a,b)"),
            ("return a.b[1]~=f(x)..'y'", "return (not EQ(a.b[1],f(x)..'y'))"),
            ("return a+1<b*2 and c>=d or e", "return LT(a+1,b*2) and GE(c,d) or e"),
            ("return a==b==c", "return EQ(EQ(a,b),c)"),
            ("return not a==b", "return EQ(not a,b)"),
            ("return -a<=#b", "return LE(-a, LEN(b))"),
            ("return #a..b", "return  LEN(a)..b"),
            ("if x>(a==b) then t[k]=1 end", "if GT(x,(EQ(a,b))) then t[K(k)]=1 end"),
            ("for i=1,#a do end", "for i=1,K( LEN(a)) do end"),
            ("local f=function(...) return (...)==1 end", "local f=function(...) return EQ((...),1) end"),
            ("return {[k]=a<b;c=d,e==f,}", "return {[K(k)]=LT(a,b);c=d,EQ(e,f),}"),
            ("local a=b==c\nlocal d", "local a=EQ(b,c)\nlocal d"),
            ("x:y'z'{a==b}(c)", "x:y'z'{EQ(a,b)}(c)"),
            ("repeat local a until a==1;return", "repeat local a until EQ(a,1);return"),
            (
                "local function f() end function a.b:c(d,...) return end",
                "local function f() end function a.b:c(d,...) return end",
            ),
        ] {
            assert_eq!(short(source).as_deref(), Some(expected), "{source}");
        }
    }

    #[test]
    fn what_is_no_lua_is_refused() {
        for source in ["return a==", "if a then", "x=", "end", "return return", "f(", "t[", "{}", "x = 1 +"] {
            assert_eq!(short(source), None, "{source}");
        }
        assert!(rewritten("(".repeat(100_000).as_bytes()).is_none());
        assert!(rewritten("do ".repeat(100_000).as_bytes()).is_none());
    }
}
