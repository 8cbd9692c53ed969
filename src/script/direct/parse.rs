//! The parser of direct scripts. It gives up at whatever else there is in Lua. The text is known to be valid Lua, if
//! [long brackets in long brackets](crate::script::tokens::without_nested_brackets) are; it gives up at long brackets, too.

use super::{Block, Call, Comparison, DirectScript, Expression, MOST_CALLS, Operands, Operator, Slot, Statement};
use crate::script::tokens::{Token, TokenKind, tokens};

/// The longest text that is read.
const MOST_SOURCE: usize = 4096;
/// The most local variables at once.
const MOST_LOCALS: usize = 32;
/// How deep blocks and expressions nest.
const MOST_DEPTH: usize = 32;
/// The most operators in one script: each can make its tree a level deeper.
const MOST_OPERATORS: usize = 64;

impl DirectScript {
    /// Parses the text of a script that Lua has compiled. `None` if Lua must run it.
    pub fn parse(source: &[u8]) -> Option<Self> {
        if source.len() > MOST_SOURCE || source.contains(&0) {
            return None;
        }
        let tokens = tokens(source)?;
        let lines = lines(source, &tokens);
        let mut parser =
            Parser { source, tokens, lines, at: 0, scope: Vec::new(), locals: 0, calls: 0, operators: 0, depth: 0 };
        let body = parser.block()?;
        parser.is_at_end().then_some(Self { body, locals: parser.locals })
    }
}

/// The line of each token, counted as Lua counts.
fn lines(source: &[u8], tokens: &[Token<'_>]) -> Vec<u32> {
    let (mut line, mut at) = (1, 0);
    let mut lines = Vec::with_capacity(tokens.len());
    for token in tokens {
        while at < token.start {
            if matches!(source[at], b'\n' | b'\r') {
                line += 1;
                // A line can end with both, in any order.
                if let Some(b'\n' | b'\r') = source.get(at + 1).filter(|next| **next != source[at]) {
                    at += 1;
                }
            }
            at += 1;
        }
        lines.push(line);
    }
    lines
}

struct Parser<'s> {
    source: &'s [u8],
    tokens: Vec<Token<'s>>,
    lines: Vec<u32>,
    at: usize,
    /// The names of the local variables that can be seen here.
    scope: Vec<&'s [u8]>,
    /// The most that there were.
    locals: usize,
    calls: usize,
    operators: usize,
    depth: usize,
}

/// How tightly operators bind, as in Lua's manual.
const OR: u8 = 1;
const AND: u8 = 2;
const COMPARISON: u8 = 3;
const CONCAT: u8 = 4;
const SUM: u8 = 5;
const PRODUCT: u8 = 6;
const UNARY: u8 = 7;

impl<'s> Parser<'s> {
    fn kind(&self) -> TokenKind<'s> {
        self.kind_at(0)
    }

    fn kind_at(&self, ahead: usize) -> TokenKind<'s> {
        self.tokens.get(self.at + ahead).map_or(TokenKind::End, |token| token.kind)
    }

    /// The text of the next token, which is consumed.
    fn take(&mut self) -> &'s [u8] {
        let Some(token) = self.tokens.get(self.at) else { return b"" };
        self.at += 1;
        &self.source[token.start..token.end]
    }

    fn is_at_end(&self) -> bool {
        self.kind() == TokenKind::End
    }

    fn is_word(&self, word: &str) -> bool {
        self.kind() == TokenKind::Word(word.as_bytes())
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.kind(), TokenKind::Symbol(found) if found == symbol)
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let accepted = self.is_word(word);
        self.at += usize::from(accepted);
        accepted
    }

    fn accept_symbol(&mut self, symbol: &str) -> bool {
        let accepted = self.is_symbol(symbol);
        self.at += usize::from(accepted);
        accepted
    }

    fn expect_word(&mut self, word: &str) -> Option<()> {
        self.accept_word(word).then_some(())
    }

    fn expect_symbol(&mut self, symbol: &str) -> Option<()> {
        self.accept_symbol(symbol).then_some(())
    }

    fn line(&self) -> u32 {
        self.lines.get(self.at).copied().unwrap_or_default()
    }

    /// The line of the last token that was consumed: where Lua notes that an operator stands.
    fn last_line(&self) -> u32 {
        self.at.checked_sub(1).and_then(|at| self.lines.get(at)).copied().unwrap_or_default()
    }

    fn local(&self, name: &[u8]) -> Option<Slot> {
        self.scope.iter().rposition(|local| *local == name)
    }

    /// Runs a part of the parser one level deeper.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth >= MOST_DEPTH {
            return None;
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    // ---- statements

    fn block(&mut self) -> Option<Block> {
        self.deeper(|parser| {
            let outer = parser.scope.len();
            let mut statements = Vec::new();
            while !parser.ends_block() {
                statements.push(parser.statement()?);
                parser.accept_symbol(";");
            }
            parser.scope.truncate(outer);
            Some(statements.into())
        })
    }

    fn ends_block(&self) -> bool {
        matches!(self.kind(), TokenKind::End | TokenKind::Word(b"end" | b"else" | b"elseif"))
    }

    fn ends_return(&self) -> bool {
        self.is_symbol(";") || self.ends_block()
    }

    fn statement(&mut self) -> Option<Statement> {
        let TokenKind::Word(word) = self.kind() else { return None };
        match word {
            b"local" => self.declaration(),
            b"if" => self.condition(),
            b"do" => {
                self.at += 1;
                let block = self.block()?;
                self.expect_word("end")?;
                Some(Statement::Do(block))
            }
            b"return" => self.end(),
            b"redis" => {
                let call = self.call()?;
                (!self.goes_on()).then_some(Statement::Call(call))
            }
            name => {
                let slot = self.local(name)?;
                self.at += 1;
                self.expect_symbol("=")?;
                Some(Statement::Set(slot, self.expression()?))
            }
        }
    }

    fn declaration(&mut self) -> Option<Statement> {
        self.at += 1;
        let TokenKind::Word(name) = self.kind() else { return None };
        // `local function`; a keyword cannot be a name otherwise.
        if name == b"function" || self.scope.len() >= MOST_LOCALS {
            return None;
        }
        self.at += 1;
        let value = if self.accept_symbol("=") { self.expression()? } else { Expression::Nil };
        if self.is_symbol(",") {
            return None;
        }
        self.scope.push(name);
        self.locals = self.locals.max(self.scope.len());
        Some(Statement::Set(self.scope.len() - 1, value))
    }

    fn condition(&mut self) -> Option<Statement> {
        let mut arms = Vec::new();
        while self.accept_word("if") || self.accept_word("elseif") {
            let condition = self.expression()?;
            self.expect_word("then")?;
            arms.push((condition, self.block()?));
            if !self.is_word("elseif") {
                break;
            }
        }
        let otherwise = if self.accept_word("else") { self.block()? } else { Block::default() };
        self.expect_word("end")?;
        Some(Statement::If { arms: arms.into(), otherwise })
    }

    /// `return` and its value.
    fn end(&mut self) -> Option<Statement> {
        self.at += 1;
        if self.ends_return() {
            return Some(Statement::Return(Expression::Nil));
        }
        if !self.accept_symbol("{") {
            let value = self.expression()?;
            return (!self.is_symbol(",")).then_some(Statement::Return(value));
        }
        let mut elements = Vec::new();
        while !self.accept_symbol("}") {
            // `{name = …}`
            if matches!(self.kind(), TokenKind::Word(_)) && self.kind_at(1) == TokenKind::Symbol("=") {
                return None;
            }
            elements.push(self.expression()?);
            if !self.accept_symbol(",") && !self.accept_symbol(";") && !self.is_symbol("}") {
                return None;
            }
        }
        self.ends_return().then_some(Statement::ReturnTable(elements.into()))
    }

    // ---- expressions

    fn expression(&mut self) -> Option<Expression> {
        self.operation(OR)
    }

    /// An expression whose operators bind at least as tightly as `least`.
    fn operation(&mut self, least: u8) -> Option<Expression> {
        self.deeper(|parser| {
            let mut left = parser.operand()?;
            while let TokenKind::Symbol(_) | TokenKind::Word(b"and" | b"or") = parser.kind() {
                let Some((tightness, build)) = parser.operator() else { break };
                if tightness < least {
                    break;
                }
                parser.at += 1;
                parser.operators += 1;
                if parser.operators > MOST_OPERATORS {
                    return None;
                }
                // `..` groups to the right.
                let right = parser.operation(if tightness == CONCAT { CONCAT } else { tightness + 1 })?;
                // What raises errors names its operands, and those of a choice are not known here.
                if !(build.cannot_fail() || left.is_plain() && right.is_plain()) {
                    return None;
                }
                left = build.of(left, right, parser.last_line())?;
            }
            Some(left)
        })
    }

    /// The operator that stands here, and how tightly it binds.
    fn operator(&self) -> Option<(u8, Binary)> {
        Some(match self.kind() {
            TokenKind::Word(b"or") => (OR, Binary::Or),
            TokenKind::Word(b"and") => (AND, Binary::And),
            TokenKind::Symbol(symbol) => match symbol {
                "==" => (COMPARISON, Binary::Equal { negated: false }),
                "~=" => (COMPARISON, Binary::Equal { negated: true }),
                "<" => (COMPARISON, Binary::Compare(Comparison::Less)),
                "<=" => (COMPARISON, Binary::Compare(Comparison::LessOrEqual)),
                ">" => (COMPARISON, Binary::Compare(Comparison::Greater)),
                ">=" => (COMPARISON, Binary::Compare(Comparison::GreaterOrEqual)),
                ".." => (CONCAT, Binary::Concat),
                "+" => (SUM, Binary::Arithmetic(Operator::Add)),
                "-" => (SUM, Binary::Arithmetic(Operator::Subtract)),
                "*" => (PRODUCT, Binary::Arithmetic(Operator::Multiply)),
                "/" => (PRODUCT, Binary::Arithmetic(Operator::Divide)),
                "%" => (PRODUCT, Binary::Arithmetic(Operator::Modulo)),
                _ => return None,
            },
            _ => return None,
        })
    }

    fn operand(&mut self) -> Option<Expression> {
        let expression = match self.kind() {
            TokenKind::Word(b"not") => {
                self.at += 1;
                return Some(Expression::Not(Box::new(self.operation(UNARY)?)));
            }
            TokenKind::Word(word) => self.named(word)?,
            TokenKind::Number => Expression::Number(number(self.take())?),
            TokenKind::String => Expression::Text(unquoted(self.take())?.into()),
            TokenKind::Symbol("(") => {
                self.at += 1;
                let inner = self.operation(OR)?;
                self.expect_symbol(")")?;
                inner
            }
            TokenKind::Symbol("-") => {
                self.at += 1;
                // 0 and -0 share a constant in Lua.
                let value = match self.kind() {
                    TokenKind::Number => number(self.take()).filter(|value| *value != 0.0)?,
                    _ => return None,
                };
                Expression::Number(-value)
            }
            TokenKind::Symbol("#") => {
                self.at += 1;
                match self.take() {
                    b"KEYS" if self.local(b"KEYS").is_none() => Expression::KeyCount,
                    b"ARGV" if self.local(b"ARGV").is_none() => Expression::ArgumentCount,
                    _ => return None,
                }
            }
            TokenKind::Symbol(_) | TokenKind::End => return None,
        };
        (!self.goes_on()).then_some(expression)
    }

    /// Whether an index, a call, a method or a power follows a value.
    fn goes_on(&self) -> bool {
        matches!(self.kind(), TokenKind::Symbol("[" | "." | ":" | "(" | "{" | "^") | TokenKind::String)
    }

    /// What begins with a word.
    fn named(&mut self, word: &'s [u8]) -> Option<Expression> {
        if let Some(slot) = self.local(word) {
            self.at += 1;
            return Some(Expression::Local(slot, word.into()));
        }
        match word {
            b"redis" => return self.call().map(Expression::Call),
            b"KEYS" | b"ARGV" => {
                self.at += 1;
                self.expect_symbol("[")?;
                let TokenKind::Number = self.kind() else { return None };
                let index: usize = std::str::from_utf8(self.take()).ok()?.parse().ok()?;
                let index = index.checked_sub(1)?;
                self.expect_symbol("]")?;
                return Some(if word == b"KEYS" { Expression::Key(index) } else { Expression::Argument(index) });
            }
            b"tonumber" => {
                self.at += 1;
                self.expect_symbol("(")?;
                let value = self.expression()?;
                self.expect_symbol(")")?;
                return Some(Expression::ToNumber(Box::new(value)));
            }
            _ => {}
        }
        self.at += 1;
        match word {
            b"nil" => Some(Expression::Nil),
            b"true" => Some(Expression::Boolean(true)),
            b"false" => Some(Expression::Boolean(false)),
            _ => None,
        }
    }

    /// `redis.call(…)` or `redis.pcall(…)`.
    fn call(&mut self) -> Option<Call> {
        if self.local(b"redis").is_some() || self.calls >= MOST_CALLS {
            return None;
        }
        self.calls += 1;
        self.at += 1;
        self.expect_symbol(".")?;
        let raises = match self.take() {
            b"call" => true,
            b"pcall" => false,
            _ => return None,
        };
        let line = self.line();
        self.expect_symbol("(")?;
        let mut arguments = Vec::new();
        while !self.accept_symbol(")") {
            arguments.push(self.expression()?);
            if !self.accept_symbol(",") && !self.is_symbol(")") {
                return None;
            }
        }
        Some(Call { arguments: arguments.into(), raises, line })
    }
}

/// An operator with two operands.
#[derive(Clone, Copy)]
enum Binary {
    Or,
    And,
    Equal { negated: bool },
    Compare(Comparison),
    Arithmetic(Operator),
    Concat,
}

impl Binary {
    fn cannot_fail(self) -> bool {
        matches!(self, Self::Or | Self::And | Self::Equal { .. })
    }

    fn of(self, left: Expression, right: Expression, line: u32) -> Option<Expression> {
        if let (Self::Arithmetic(operator), Expression::Number(left), Expression::Number(right)) = (self, &left, &right)
        {
            // Lua computes it when it compiles. 0 and -0 share a constant there, so who comes first would matter.
            let value = operator.of(*left, *right);
            return (value.is_finite() && value != 0.0).then_some(Expression::Number(value));
        }
        let operands = Box::new(Operands { left, right });
        Some(match self {
            Self::Or => Expression::Or(operands),
            Self::And => Expression::And(operands),
            Self::Equal { negated } => Expression::Equal { operands, negated },
            Self::Compare(comparison) => Expression::Compare { operands, comparison, line },
            Self::Arithmetic(operator) => Expression::Arithmetic { operands, operator, line },
            Self::Concat => {
                // Lua joins it with the concatenation to its right, and then knows the line of that alone.
                let line = if let Expression::Concat { line, .. } = operands.right { line } else { line };
                Expression::Concat { operands, line }
            }
        })
    }
}

impl Expression {
    /// Whether Lua computes it without a branch, so that it is clear what an error calls it.
    fn is_plain(&self) -> bool {
        match self {
            Self::Nil
            | Self::Boolean(_)
            | Self::Number(_)
            | Self::Text(_)
            | Self::Key(_)
            | Self::Argument(_)
            | Self::KeyCount
            | Self::ArgumentCount
            | Self::Local(..)
            | Self::Call(_)
            | Self::ToNumber(_)
            | Self::Arithmetic { .. }
            | Self::Concat { .. } => true,
            Self::Not(_) | Self::And(_) | Self::Or(_) | Self::Equal { .. } | Self::Compare { .. } => false,
        }
    }
}

/// A decimal number. Lua reads others as well.
fn number(text: &[u8]) -> Option<f64> {
    let is_decimal = text.iter().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(byte));
    std::str::from_utf8(text).ok().filter(|_| is_decimal)?.parse().ok()
}

/// The value of a string in quotes.
fn unquoted(text: &[u8]) -> Option<Vec<u8>> {
    let [b'"' | b'\'', inner @ .., _] = text else { return None };
    let mut value = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        value.push(match bytes.next()? {
            b'a' => 0x07,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'\n' | b'\r' => return None,
            first @ b'0'..=b'9' => {
                let mut code = u32::from(first - b'0');
                for _ in 0..2 {
                    if let Some(digit) = bytes.next_if(u8::is_ascii_digit) {
                        code = code * 10 + u32::from(digit - b'0');
                    }
                }
                u8::try_from(code).ok()?
            }
            other => other,
        });
    }
    Some(value)
}
