//! Scripts that run without Lua: short ones, whose end is in sight when they begin.
//!
//! Most scripts that take, extend and release locks compare what they have read with an argument, and call one more command. To
//! call Lua for that costs more than their commands. So the text is also read here; if it has nothing but the statements and
//! expressions below, [`DirectScript::run`] does what Lua would do, with the same replies and the same errors. Every other script
//! runs in Lua (docs/decisions/0044-scripts-without-lua.md).

mod parse;
mod run;

#[cfg(test)]
mod tests;

/// The most calls of commands in one script. As many calls are one tick in Lua, so a direct script ends before its first tick.
const MOST_CALLS: usize = 32;

/// The text of a script, parsed.
#[derive(Debug)]
pub struct DirectScript {
    body: Block,
    /// How many local variables there are at once.
    locals: usize,
}

type Block = Box<[Statement]>;

#[derive(Debug)]
enum Statement {
    /// A declaration or an assignment.
    Set(Slot, Expression),
    Call(Call),
    If {
        arms: Box<[(Expression, Block)]>,
        otherwise: Block,
    },
    Do(Block),
    Return(Expression),
    /// `return {…}`
    ReturnTable(Box<[Expression]>),
}

/// The place of a local variable.
type Slot = usize;

#[derive(Debug)]
enum Expression {
    Nil,
    Boolean(bool),
    Number(f64),
    Text(Box<[u8]>),
    /// `KEYS[1]` is 0.
    Key(usize),
    /// `ARGV[1]` is 0.
    Argument(usize),
    /// `#KEYS`
    KeyCount,
    /// `#ARGV`
    ArgumentCount,
    Local(Slot, Box<[u8]>),
    Call(Call),
    ToNumber(Box<Expression>),
    Not(Box<Expression>),
    And(Box<Operands>),
    Or(Box<Operands>),
    Equal {
        operands: Box<Operands>,
        negated: bool,
    },
    Compare {
        operands: Box<Operands>,
        comparison: Comparison,
        line: u32,
    },
    Arithmetic {
        operands: Box<Operands>,
        operator: Operator,
        line: u32,
    },
    Concat {
        operands: Box<Operands>,
        line: u32,
    },
}

#[derive(Debug)]
struct Operands {
    left: Expression,
    right: Expression,
}

/// `redis.call` or `redis.pcall`.
#[derive(Debug)]
struct Call {
    arguments: Box<[Expression]>,
    /// Whether it raises the error of the command.
    raises: bool,
    line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Comparison {
    fn holds<T: PartialOrd + ?Sized>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

impl Operator {
    fn of(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            // As Lua does, which is not what Rust's operator does.
            Self::Modulo => left - (left / right).floor() * right,
        }
    }
}
