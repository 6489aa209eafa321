//! Jinja templates that come with a model, rendered as Python renders them and within limits:
//! whatever a template does, it ends soon and takes little memory.
//!
//! `minijinja` counts instructions, and filters can be replaced; its operators cannot. So the
//! compiled instructions of operators are exchanged, one for one, for calls of filters that keep
//! within the limits (`guard`).

mod guard;
mod limits;
mod print;

use std::collections::BTreeMap;
use std::thread;

use minijinja::machinery::{
    Instruction, Instructions, Token, Vm, WhitespaceConfig, get_compiled_template,
    make_string_output, tokenize,
};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};

use crate::panics::caught;

pub(crate) use guard::environment;
pub(crate) use limits::{refusal, spend};
pub(crate) use print::{printed, tojson};

/// A template's name in its environment, which nobody sees.
const NAME: &str = "template";
/// Characters of a message that are shown: a template may say anything.
const MESSAGE_CHARS: usize = 300;

/// A template that does not compile or cannot be rendered. The message is one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{template}{}: {reason}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
#[non_exhaustive]
pub struct TemplateError {
    /// Which template it is.
    pub template: String,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// What is wrong, or what the template says itself.
    pub reason: String,
    /// The template takes too much time or memory: not the values are at fault, but the template.
    pub exceeds_limits: bool,
}

impl TemplateError {
    fn new(template: &str, line: Option<usize>, reason: String) -> Self {
        Self {
            template: template.to_owned(),
            line,
            reason,
            exceeds_limits: false,
        }
    }
}

/// A compiled template.
#[derive(Debug)]
pub struct Template {
    environment: Environment<'static>,
    /// What errors call it.
    title: String,
    /// Only namespaces can hold each other to any depth.
    has_namespaces: bool,
}

impl Template {
    /// A template for which undefined variables are errors and which keeps its last newline.
    /// `title` is what errors call it.
    ///
    /// # Errors
    /// It is not valid Jinja, or beyond the limits.
    pub fn strict(title: &str, source: &str) -> Result<Self, TemplateError> {
        let mut environment = environment();
        environment.set_keep_trailing_newline(true);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        Self::compile(title, source, environment)
    }

    /// Compiles `source` in an environment that [`environment`] has made.
    pub(crate) fn compile(
        title: &str,
        source: &str,
        mut environment: Environment<'static>,
    ) -> Result<Self, TemplateError> {
        let failed = |line, reason| TemplateError::new(title, line, reason);
        let (bytes, most) = (source.len(), limits::SOURCE_BYTES);
        if bytes > most {
            return Err(failed(None, format!("has {bytes} bytes, more than {most}")));
        }
        let whitespace = WhitespaceConfig {
            keep_trailing_newline: environment.keep_trailing_newline(),
            lstrip_blocks: environment.lstrip_blocks(),
            trim_blocks: environment.trim_blocks(),
        };
        // As Jinja reads every template.
        let source = &source.replace("\r\n", "\n").replace('\r', "\n");
        check_tags(source, whitespace).map_err(|(line, reason)| failed(Some(line), reason))?;
        on_large_stack(|| environment.add_template_owned(NAME, source.clone()))
            .map_err(|panic| failed(None, panic))?
            .map_err(|error| failed(error.line(), message(&error)))?;
        let mut template = Self {
            environment,
            title: title.to_owned(),
            has_namespaces: source.contains("namespace"),
        };
        let fuel = template.check_instructions()?;
        template.environment.set_fuel(Some(fuel));
        Ok(template)
    }

    /// Refuses instructions that reach another template; returns the fuel of a rendering.
    fn check_instructions(&self) -> Result<u64, TemplateError> {
        let template = self.environment.get_template(NAME);
        let template = template.map_err(|error| self.failed(error.line(), message(&error)))?;
        let compiled = get_compiled_template(&template);
        let mut longest = 1;
        for instructions in compiled.blocks.values().chain([&compiled.instructions]) {
            for i in 0..instructions.len() as u32 {
                let reason = match instructions.get(i) {
                    Some(Instruction::EmitRaw(text)) => {
                        longest = longest.max(text.len());
                        continue;
                    }
                    Some(Instruction::UnpackLists(lists)) if *lists > limits::UNPACKED => {
                        "a call takes its arguments from too many lists"
                    }
                    Some(
                        Instruction::Include(_)
                        | Instruction::LoadBlocks
                        | Instruction::ExportLocals,
                    ) => "there is no other template to load",
                    _ => continue,
                };
                return Err(self.failed(instructions.get_line(i), reason));
            }
        }
        Ok(limits::FUEL.min((limits::RAW_BYTES / longest) as u64))
    }

    /// The environment, for functions that change later.
    pub(crate) fn environment(&mut self) -> &mut Environment<'static> {
        &mut self.environment
    }

    /// Whether the template reads a variable of that name.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        let template = self.environment.get_template(NAME);
        template.is_ok_and(|template| template.undeclared_variables(false).contains(variable))
    }

    /// The text for these values, `input` bytes of which are not the template's own.
    ///
    /// # Errors
    /// What the template says, or which limit it exceeds.
    pub fn render(&self, values: Value, input: usize) -> Result<String, TemplateError> {
        let rendered = if self.has_namespaces {
            on_large_stack(|| self.render_here(values, input))
        } else {
            caught(|| self.render_here(values, input))
        };
        rendered
            .map_err(|panic| self.failed(None, panic))?
            .map_err(|error| TemplateError {
                exceeds_limits: limits::is_exceeded(&error),
                ..self.failed(error.line(), message(&error))
            })
    }

    fn render_here(&self, values: Value, input: usize) -> Result<String, Error> {
        let template = self.environment.get_template(NAME)?;
        let compiled = get_compiled_template(&template);
        let blocks: BTreeMap<_, _> = compiled
            .blocks
            .iter()
            .map(|(name, instructions)| (*name, guarded(instructions)))
            .collect();
        let instructions = guarded(&compiled.instructions);
        let mut text = String::new();
        limits::within(input, || {
            let mut out = make_string_output(&mut text);
            let vm = Vm::new(&self.environment);
            vm.eval(&instructions, values, &blocks, &mut out, AutoEscape::None)
                .map(drop)
        })?;
        Ok(text)
    }

    /// An error of this template.
    pub(crate) fn failed(&self, line: Option<usize>, reason: impl Into<String>) -> TemplateError {
        TemplateError::new(&self.title, line, reason.into())
    }
}

/// The instructions with the operators' exchanged for calls of filters: as many arguments, one
/// result, so that jumps stay as they are.
fn guarded<'a>(all: &Instructions<'a>) -> Instructions<'a> {
    let mut out = Instructions::new(all.name(), all.source());
    for i in 0..all.len() as u32 {
        let Some(instruction) = all.get(i) else { break };
        let filter = match instruction {
            Instruction::Add => Some(("+", 2)),
            Instruction::Mul => Some(("*", 2)),
            Instruction::StringConcat => Some(("~", 2)),
            Instruction::Slice => Some(("[:]", 4)),
            Instruction::Eq => Some(("==", 2)),
            Instruction::Ne => Some(("!=", 2)),
            Instruction::Lt => Some(("<", 2)),
            Instruction::Lte => Some(("<=", 2)),
            Instruction::Gt => Some((">", 2)),
            Instruction::Gte => Some((">=", 2)),
            Instruction::In => Some(("in", 2)),
            Instruction::BuildList(Some(n)) => Some(("[]", *n)),
            Instruction::BuildMap(n) => Some(("{}", 2 * n)),
            _ => None,
        };
        let instruction = match filter {
            // A source is too short for more items than fit.
            Some((name, n)) => Instruction::ApplyFilter(name, Some(n as u16), !0),
            None => instruction.clone(),
        };
        match (all.get_span(i), all.get_line(i)) {
            (Some(span), _) => out.add_with_span(instruction, span),
            (None, Some(line)) => out.add_with_line(instruction, line as u16),
            (None, None) => out.add(instruction),
        };
    }
    out
}

/// Refuses what would take the compiler's stack, or its memory for constants. What is no template
/// at all is left to the compiler.
fn check_tags(source: &str, whitespace: WhitespaceConfig) -> Result<(), (usize, String)> {
    #[derive(Default)]
    struct Tag {
        tokens: usize,
        products: i32,
        /// Bytes of strings, and the sum of all numbers.
        strings: usize,
        numbers: f64,
    }
    let mut tag = Tag::default();
    let mut elifs = 0;
    for token in tokenize(source, false, Default::default(), whitespace) {
        let Ok((token, span)) = token else {
            return Ok(());
        };
        tag.tokens += 1;
        match token {
            Token::VariableStart | Token::BlockStart => tag = Tag::default(),
            Token::Str(text) => tag.strings += text.len(),
            Token::String(text) => tag.strings += text.len(),
            Token::Int(n) => tag.numbers += n as f64,
            Token::Int128(n) => tag.numbers += *n as f64,
            Token::Float(n) => tag.numbers += n.abs(),
            Token::Mul => tag.products += 1,
            // No string is repeated that often.
            Token::Pow => tag.products += 64,
            Token::Ident("elif") => elifs += 1,
            Token::VariableEnd | Token::BlockEnd => {
                let most = tag.numbers.max(1.0).powi(tag.products) * tag.strings as f64;
                if tag.products > 0 && most > limits::CONSTANT_BYTES {
                    let reason = "repeats a text too often";
                    return Err((span.start_line.into(), reason.into()));
                }
            }
            _ => {}
        }
        let reason = if tag.tokens > limits::TAG_TOKENS {
            format!("an expression has more than {} tokens", limits::TAG_TOKENS)
        } else if elifs > limits::ELIFS {
            format!("has more than {} elif", limits::ELIFS)
        } else {
            continue;
        };
        return Err((span.start_line.into(), reason));
    }
    Ok(())
}

/// Runs `f` on a thread that has room for deep recursion; the error says why it could not.
fn on_large_stack<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(limits::STACK_BYTES);
        match thread.spawn_scoped(scope, || caught(f)) {
            Ok(thread) => thread.join().expect("panics are caught"),
            Err(error) => Err(format!("no thread for it: {error}")),
        }
    })
}

/// An error's message in one line that is not too long.
fn message(error: &Error) -> String {
    if error.kind() == ErrorKind::OutOfFuel {
        return "runs too long".into();
    }
    let text = error
        .detail()
        .map_or_else(|| error.to_string(), str::to_owned);
    let mut line: String = text.chars().take(MESSAGE_CHARS).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Without the white space around it, by Python's idea of it.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Without the white space after it, by Python's idea of it.
pub(crate) fn rstrip(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// `str.isspace`: Unicode's white space, and four separators of ASCII.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}
