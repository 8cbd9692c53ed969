//! `redis.register_function`.

use std::collections::HashSet;
use std::sync::Arc;

use super::api::raise_of_library;
use super::compiled::{Script, ScriptName};
use super::lua::{Frame, LuaError, LuaType, RegistryRef};
use super::shebang::{ScriptFlags, is_name};
use crate::base::profile::Since;
use crate::protocol::until_nul;

pub(super) const BAD_NAME: &str =
    "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";
const BAD_FUNCTION_NAME: &str =
    "ERR Function names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// The first Valkey that checks a library's functions only after its code has run.
pub(super) const JUDGED_LATER: Since = Since::valkey(8, 1, 0);

/// A function that a library has registered.
#[derive(Clone, Debug)]
pub struct Function {
    pub(super) script: Script,
    pub description: Option<Vec<u8>>,
}

impl Function {
    pub fn name(&self) -> &[u8] {
        self.script.name()
    }

    pub fn flags(&self) -> ScriptFlags {
        self.script.flags
    }
}

/// The functions that a library has registered so far, and their names: a library may register very many.
#[derive(Default)]
pub struct Registered {
    functions: Vec<Function>,
    names: HashSet<Vec<u8>>,
}

impl Registered {
    fn add(&mut self, function: Function) {
        self.names.insert(function.name().to_vec());
        self.functions.push(function);
    }

    pub fn into_functions(self) -> Vec<Function> {
        self.functions
    }
}

/// The arguments of `redis.register_function`, as far as they are read.
#[derive(Default)]
struct RegisterArgs {
    name: Option<Vec<u8>>,
    description: Option<Vec<u8>>,
    flags: ScriptFlags,
    callback: Option<RegistryRef>,
}

pub(super) fn register_function(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let host = frame.host();
    let Some(registered) = host.registered() else {
        return Err(raise_of_library(frame, "ERR redis.register_function can only be called on FUNCTION LOAD command"));
    };
    let mut draft = RegisterArgs::default();
    let read = match frame.top() {
        1 => read_table(frame, &mut draft),
        2 => read_pair(frame, &mut draft),
        _ => Err("ERR wrong number of arguments to redis.register_function"),
    };
    let function = read.and_then(|()| finish(&draft, &registered.borrow(), host.profile().has(JUDGED_LATER)));
    match function {
        Ok(function) => {
            registered.borrow_mut().add(function);
            Ok(0)
        }
        Err(text) => {
            draft.callback.into_iter().for_each(|callback| frame.free_ref(callback));
            Err(raise_of_library(frame, text))
        }
    }
}

/// Checks all functions of a library after its code has run, as Valkey does.
pub(super) fn judge_all(functions: &[Function]) -> Result<(), &'static str> {
    let mut names = HashSet::new();
    functions.iter().try_for_each(|function| judge(function.name(), !names.insert(function.name()), BAD_FUNCTION_NAME))
}

fn judge(name: &[u8], is_taken: bool, bad_name: &'static str) -> Result<(), &'static str> {
    match () {
        () if !is_name(name) => Err(bad_name),
        () if is_taken => Err("ERR Function already exists in the library"),
        () => Ok(()),
    }
}

fn finish(draft: &RegisterArgs, others: &Registered, judges_later: bool) -> Result<Function, &'static str> {
    let name = draft.name.as_deref().ok_or("ERR redis.register_function must get a function name argument")?;
    let function = draft.callback.ok_or("ERR redis.register_function must get a callback argument")?;
    if !judges_later {
        judge(name, others.names.contains(name), BAD_NAME)?;
    }
    let name = ScriptName::Function(Arc::from(name));
    let script = Script { name, flags: draft.flags, function, slot: None, direct: None };
    Ok(Function { script, description: draft.description.clone() })
}

/// `register_function('name', callback)`.
fn read_pair(frame: &mut Frame<'_>, draft: &mut RegisterArgs) -> Result<(), &'static str> {
    let name = frame.to_bytes(1).ok_or("ERR first argument to redis.register_function must be a string")?;
    draft.name = Some(name.to_vec());
    if frame.kind(2) != LuaType::Function {
        return Err("ERR second argument to redis.register_function must be a function");
    }
    draft.callback = Some(frame.create_ref());
    Ok(())
}

/// `register_function{function_name = 'name', callback = callback, flags = {}, description = ''}`.
fn read_table(frame: &mut Frame<'_>, draft: &mut RegisterArgs) -> Result<(), &'static str> {
    if frame.kind(1) != LuaType::Table {
        return Err(
            "ERR calling redis.register_function with a single argument is only applicable to Lua table (representing \
             named arguments).",
        );
    }
    frame.push_nil();
    while frame.next(1) {
        let key = match frame.kind(-2) {
            LuaType::String => until_nul(frame.bytes(-2).unwrap_or_default()).to_ascii_lowercase(),
            LuaType::Number => Vec::new(),
            _ => return Err("ERR named argument key given to redis.register_function is not a string"),
        };
        match key.as_slice() {
            b"function_name" => {
                let name = frame.to_bytes(-1);
                let name =
                    name.ok_or("ERR function_name argument given to redis.register_function must be a string")?;
                draft.name = Some(name.to_vec());
            }
            b"description" => {
                let text = frame.to_bytes(-1);
                let text = text.ok_or("ERR description argument given to redis.register_function must be a string")?;
                draft.description = Some(text.to_vec());
            }
            b"callback" => {
                if frame.kind(-1) != LuaType::Function {
                    return Err("ERR callback argument given to redis.register_function must be a function");
                }
                // Keys ignore case, so the same one can appear twice.
                draft.callback.take().into_iter().for_each(|callback| frame.free_ref(callback));
                draft.callback = Some(frame.create_ref());
                continue;
            }
            b"flags" => {
                if frame.kind(-1) != LuaType::Table {
                    return Err(
                        "ERR flags argument to redis.register_function must be a table representing function flags",
                    );
                }
                draft.flags = read_flags(frame).ok_or("ERR unknown flag given")?;
            }
            _ => return Err("ERR unknown argument given to redis.register_function"),
        }
        frame.pop(1);
    }
    Ok(())
}

/// The flags in the array on top, up to the first nil.
fn read_flags(frame: &mut Frame<'_>) -> Option<ScriptFlags> {
    let mut flags = ScriptFlags::default();
    for element in 1.. {
        frame.raw_get_index(-1, element);
        if frame.kind(-1) == LuaType::Nil {
            frame.pop(1);
            break;
        }
        let flag = until_nul(frame.bytes(-1)?).to_ascii_lowercase();
        if !flags.add(&flag) {
            return None;
        }
        frame.pop(1);
    }
    Some(flags)
}
