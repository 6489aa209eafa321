//! Reads the pickle of a state dict, and refuses every other pickle.
//!
//! A pickle is a program that may call anything that Python can import. This reader knows a few
//! opcodes, which build numbers, texts, tuples and dicts. The few callables of a state dict are an
//! enumeration here, and all others are refused by name. No code of the pickle is ever run.

use std::collections::HashMap;

use super::opcode;
use crate::Encoding;
use crate::error::Malformed;

/// The most values, and the most entries of the stack. A tensor needs about a dozen values.
const MOST_VALUES: usize = 1 << 21;
/// The most dimensions of a tensor, as in `PyTorch`.
const MOST_DIMENSIONS: usize = 64;

/// A tensor as the pickle describes it.
#[derive(Clone, Debug)]
pub(super) struct StoredTensor<'a> {
    pub(super) storage: Storage<'a>,
    /// The index of the tensor's first value in the storage.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    /// The step from one index to the next in each dimension, in values.
    pub(super) strides: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Storage<'a> {
    /// The encoding, or the name of an unsupported number type.
    pub(super) encoding: Result<Encoding, &'static str>,
    /// The name of the storage's file in the archive.
    pub(super) key: &'a str,
}

/// The globals that a pickle may import. All others are refused.
#[derive(Clone, Copy, Debug)]
enum Global {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    Storage(Result<Encoding, &'static str>),
}

impl Global {
    fn named(module: &str, name: &str) -> Result<Self, Malformed> {
        Ok(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2") => Self::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Self::RebuildParameter,
            ("torch", "FloatStorage") => Self::Storage(Ok(Encoding::F32)),
            ("torch", "HalfStorage") => Self::Storage(Ok(Encoding::F16)),
            ("torch", "BFloat16Storage") => Self::Storage(Ok(Encoding::Bf16)),
            ("torch", "DoubleStorage") => Self::Storage(Err("F64")),
            ("torch", "LongStorage") => Self::Storage(Err("I64")),
            ("torch", "IntStorage") => Self::Storage(Err("I32")),
            ("torch", "ShortStorage") => Self::Storage(Err("I16")),
            ("torch", "CharStorage") => Self::Storage(Err("I8")),
            ("torch", "ByteStorage") => Self::Storage(Err("U8")),
            ("torch", "BoolStorage") => Self::Storage(Err("BOOL")),
            ("torch", "Float8_e4m3fnStorage") => Self::Storage(Err("F8_E4M3")),
            _ => {
                let shown: String = format!("{module}.{name}").chars().take(80).collect();
                return Err(Malformed(format!(
                    "its pickle asks for `{}`, which no state dict needs; refused \
                     (save the weights as safetensors)",
                    shown.escape_debug()
                )));
            }
        })
    }
}

/// The index of a value in [`Machine::values`].
type Id = usize;

#[derive(Debug)]
enum Value<'a> {
    /// `None`, `True` or `False`, which have no influence on the tensors.
    Nothing,
    Int(i64),
    Text(&'a str),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global),
    Storage(Storage<'a>),
    Tensor(StoredTensor<'a>),
}

/// The stack machine that interprets a pickle, without calling any code.
struct Machine<'a> {
    code: &'a [u8],
    at: usize,
    values: Vec<Value<'a>>,
    stack: Vec<Id>,
    /// The heights of the stack at the open marks.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

/// Reads the tensors of a pickled state dict, with their names.
pub(super) fn state_dict(code: &[u8]) -> Result<Vec<(String, StoredTensor<'_>)>, Malformed> {
    let mut machine = Machine {
        code,
        at: 0,
        values: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    let root = machine.run()?;
    let Value::Dict(items) = &machine.values[root] else {
        return Err("its pickle is not a state dict".into());
    };
    items
        .iter()
        .map(
            |(key, value)| match (&machine.values[*key], &machine.values[*value]) {
                (Value::Text(name), Value::Tensor(tensor)) => {
                    Ok(((*name).to_owned(), tensor.clone()))
                }
                (Value::Text(name), _) => Err(Malformed(format!(
                    "its pickle is not a state dict: `{}` is not a tensor",
                    name.escape_debug()
                ))),
                _ => Err("its pickle is not a state dict: a name is not a text".into()),
            },
        )
        .collect()
}

fn corrupt(what: &str) -> Malformed {
    Malformed(format!("truncated or corrupt pickle: {what}"))
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<Id, Malformed> {
        loop {
            let [op] = self.array()?;
            match op {
                // The protocol's version and the lengths of frames are skipped.
                opcode::PROTO => drop(self.array::<1>()?),
                opcode::FRAME => drop(self.array::<8>()?),
                opcode::STOP => return self.pop(),
                opcode::MARK => {
                    if self.marks.len() >= MOST_VALUES {
                        return Err(corrupt("too many marks"));
                    }
                    self.marks.push(self.stack.len());
                }
                // `requires_grad` is a boolean. It does not change the weights.
                opcode::NONE | opcode::NEWTRUE | opcode::NEWFALSE => self.push(Value::Nothing)?,
                opcode::BININT => {
                    let n = i32::from_le_bytes(self.array()?);
                    self.push(Value::Int(n.into()))?;
                }
                opcode::BININT1 => {
                    let [n] = self.array()?;
                    self.push(Value::Int(n.into()))?;
                }
                opcode::BININT2 => {
                    let n = u16::from_le_bytes(self.array()?);
                    self.push(Value::Int(n.into()))?;
                }
                opcode::LONG1 => self.long()?,
                opcode::BINUNICODE => {
                    let len = u32::from_le_bytes(self.array()?);
                    self.text(len as usize)?;
                }
                opcode::SHORT_BINUNICODE => {
                    let [len] = self.array()?;
                    self.text(len.into())?;
                }
                opcode::BINPUT => {
                    let [slot] = self.array()?;
                    self.remember(slot.into())?;
                }
                opcode::LONG_BINPUT => {
                    let slot = u32::from_le_bytes(self.array()?);
                    self.remember(slot)?;
                }
                // The implicit slot is the number of slots in use, as in Python.
                opcode::MEMOIZE => self.remember(self.memo.len() as u32)?,
                opcode::BINGET => {
                    let [slot] = self.array()?;
                    self.recall(slot.into())?;
                }
                opcode::LONG_BINGET => {
                    let slot = u32::from_le_bytes(self.array()?);
                    self.recall(slot)?;
                }
                opcode::EMPTY_TUPLE => self.push(Value::Tuple(Vec::new()))?,
                opcode::TUPLE1..=opcode::TUPLE3 => {
                    let items = self.pop_many(usize::from(op - opcode::TUPLE1 + 1))?;
                    self.push(Value::Tuple(items))?;
                }
                opcode::TUPLE => {
                    let items = self.pop_mark()?;
                    self.push(Value::Tuple(items))?;
                }
                opcode::EMPTY_DICT => self.push(Value::Dict(Vec::new()))?,
                opcode::SETITEM => {
                    let items = self.pop_many(2)?;
                    self.set(&items)?;
                }
                opcode::SETITEMS => {
                    let items = self.pop_mark()?;
                    self.set(&items)?;
                }
                opcode::GLOBAL => {
                    let global = self.global_in_lines()?;
                    self.push(Value::Global(global))?;
                }
                opcode::STACK_GLOBAL => {
                    let names = self.pop_many(2)?;
                    let (Value::Text(module), Value::Text(name)) =
                        (&self.values[names[0]], &self.values[names[1]])
                    else {
                        return Err(corrupt("a global without a name"));
                    };
                    let global = Global::named(module, name)?;
                    self.push(Value::Global(global))?;
                }
                opcode::BINPERSID => self.persistent()?,
                opcode::REDUCE => self.call()?,
                opcode::BUILD => {
                    // A state is set on a dict besides its items. For torch it is `_metadata`,
                    // which is dropped.
                    self.pop()?;
                    let dict = self.pop()?;
                    if !matches!(self.values[dict], Value::Dict(_)) {
                        return Err(corrupt("a state set on a value that has none"));
                    }
                    self.stack.push(dict);
                }
                other => return Err(self.refuse(other)),
            }
        }
    }

    fn refuse(&mut self, op: u8) -> Malformed {
        // The opcode INST is followed by the name of an import, which says more than the opcode.
        if op == opcode::INST
            && let Err(reason) = self.global_in_lines()
        {
            return reason;
        }
        let name = opcode::REFUSED.iter().find(|(code, _)| *code == op);
        let name = name.map_or_else(|| format!("{op:#04x}"), |(_, name)| (*name).into());
        let at = self.at - 1;
        Malformed(format!(
            "its pickle has the opcode {name} at byte {at}, which no state dict needs; refused \
             (save the weights as safetensors)"
        ))
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let bytes = self.code[self.at..].get(..n);
        let bytes = bytes.ok_or_else(|| corrupt("it ends too early"))?;
        self.at += n;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// Reads an integer of any length, in two's complement.
    fn long(&mut self) -> Result<(), Malformed> {
        let [len] = self.array()?;
        let bytes = self.take(len.into())?;
        // No size or offset needs more than 64 bits.
        if bytes.len() > 8 {
            return Err(corrupt("a number beyond all sizes"));
        }
        let negative = bytes.last().is_some_and(|b| *b >= 0x80);
        // The number is little endian. Missing upper bytes repeat the sign.
        let mut word = [if negative { 0xFF } else { 0 }; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        self.push(Value::Int(i64::from_le_bytes(word)))
    }

    fn text(&mut self, len: usize) -> Result<(), Malformed> {
        let text = std::str::from_utf8(self.take(len)?);
        let text = text.map_err(|_| corrupt("a text that is not UTF-8"))?;
        self.push(Value::Text(text))
    }

    fn line(&mut self) -> Result<&'a str, Malformed> {
        let rest = &self.code[self.at..];
        let len = rest.iter().position(|b| *b == b'\n');
        let len = len.ok_or_else(|| corrupt("it ends too early"))?;
        let line = self.take(len + 1)?;
        std::str::from_utf8(&line[..len]).map_err(|_| corrupt("a name that is not UTF-8"))
    }

    fn global_in_lines(&mut self) -> Result<Global, Malformed> {
        let (module, name) = (self.line()?, self.line()?);
        Global::named(module, name)
    }

    fn push(&mut self, value: Value<'a>) -> Result<(), Malformed> {
        // The memo may refer to any value, so values are never freed. The limit bounds their
        // memory.
        self.values.push(value);
        self.push_id(self.values.len() - 1)
    }

    fn push_id(&mut self, id: Id) -> Result<(), Malformed> {
        // A memo can be recalled without creating a value, so the stack has a limit of its own.
        if self.values.len() > MOST_VALUES || self.stack.len() >= MOST_VALUES {
            return Err(corrupt("more values than a state dict can have"));
        }
        self.stack.push(id);
        Ok(())
    }

    fn pop(&mut self) -> Result<Id, Malformed> {
        // Values below the last mark belong to an enclosing tuple or dict.
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(corrupt("a value is missing"));
        }
        self.stack
            .pop()
            .ok_or_else(|| corrupt("a value is missing"))
    }

    fn pop_many(&mut self, n: usize) -> Result<Vec<Id>, Malformed> {
        let mut items = (0..n).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
        items.reverse();
        Ok(items)
    }

    /// Takes all values above the last mark.
    fn pop_mark(&mut self) -> Result<Vec<Id>, Malformed> {
        let height = self.marks.pop();
        let height = height.ok_or_else(|| corrupt("a mark is missing"))?;
        Ok(self.stack.split_off(height))
    }

    fn remember(&mut self, slot: u32) -> Result<(), Malformed> {
        let top = self.pop()?;
        self.stack.push(top);
        self.memo.insert(slot, top);
        Ok(())
    }

    fn recall(&mut self, slot: u32) -> Result<(), Malformed> {
        let id = self.memo.get(&slot).copied();
        self.push_id(id.ok_or_else(|| corrupt("a memo is missing"))?)
    }

    /// Sets items on the dict on top of the stack. Keys and values alternate in `items`.
    fn set(&mut self, items: &[Id]) -> Result<(), Malformed> {
        let top = self.pop()?;
        self.stack.push(top);
        let (pairs, rest) = items.as_chunks::<2>();
        // The dict stays on the stack, because later opcodes set more items on it.
        match &mut self.values[top] {
            Value::Dict(dict) if rest.is_empty() => {
                dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
                Ok(())
            }
            _ => Err(corrupt("items for a value that is not a dict")),
        }
    }

    /// Converts the tuple `('storage', type, key, device, size)` to a storage.
    fn persistent(&mut self) -> Result<(), Malformed> {
        let id = self.pop()?;
        let storage = match self.tuple(id).as_slice() {
            [
                Value::Text("storage"),
                Value::Global(Global::Storage(encoding)),
                Value::Text(key),
                Value::Text(_),
                Value::Int(_),
            ] => Storage {
                encoding: *encoding,
                key,
            },
            _ => return Err(corrupt("a persistent id that is not a storage")),
        };
        self.push(Value::Storage(storage))
    }

    /// Applies a global to its arguments. Only builds a value, and calls no code.
    fn call(&mut self) -> Result<(), Malformed> {
        let arguments = self.pop()?;
        let callee = self.pop()?;
        let Value::Global(callee) = self.values[callee] else {
            return Err(corrupt("a call of a value that is not a function"));
        };
        let arguments = self.tuple(arguments);
        let result = match (callee, arguments.as_slice()) {
            (Global::OrderedDict, []) => Value::Dict(Vec::new()),
            (
                Global::RebuildTensor,
                [
                    Value::Storage(storage),
                    Value::Int(offset),
                    Value::Tuple(shape),
                    Value::Tuple(strides),
                    ..,
                ],
            ) => Value::Tensor(StoredTensor {
                storage: *storage,
                offset: size(*offset)?,
                shape: self.sizes(shape)?,
                strides: self.sizes(strides)?,
            }),
            (Global::RebuildParameter, [Value::Tensor(tensor), ..]) => {
                Value::Tensor(tensor.clone())
            }
            _ => return Err(corrupt("a call with invalid arguments")),
        };
        self.push(result)
    }

    /// The first eight items of a tuple, which is more than any global reads; empty for other
    /// values.
    fn tuple(&self, id: Id) -> Vec<&Value<'a>> {
        match &self.values[id] {
            Value::Tuple(items) => items.iter().take(8).map(|id| &self.values[*id]).collect(),
            _ => Vec::new(),
        }
    }

    fn sizes(&self, items: &[Id]) -> Result<Vec<usize>, Malformed> {
        if items.len() > MOST_DIMENSIONS {
            return Err(corrupt("a tensor of too many dimensions"));
        }
        items
            .iter()
            .map(|id| match self.values[*id] {
                Value::Int(n) => size(n),
                _ => Err(corrupt("a size that is not a number")),
            })
            .collect()
    }
}

fn size(n: i64) -> Result<usize, Malformed> {
    usize::try_from(n).map_err(|_| corrupt("a negative size"))
}
