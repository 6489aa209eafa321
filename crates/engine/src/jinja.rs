//! Renders Jinja templates from checkpoints with Python's results, and within limits. Templates are
//! untrusted programs: every rendering ends soon and takes little memory.
//!
//! `minijinja` limits the number of instructions, and its filters can be replaced, but its
//! operators cannot. So each compiled instruction of an operator is replaced by a call of a filter
//! that checks the limits (in the module `guard`).

mod guard;
mod limits;
mod print;

use std::collections::BTreeMap;
use std::thread;

use beamgen_files::caught;
use minijinja::machinery::{
    Instruction, Instructions, Token, Vm, WhitespaceConfig, get_compiled_template,
    make_string_output, tokenize,
};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};

pub(crate) use guard::environment;
pub(crate) use limits::{refusal, spend};
pub(crate) use print::{printed, tojson};

/// The template's name in its environment. Messages show the title instead.
const NAME: &str = "template";
/// The most characters of an error's message. A template may raise a text of any length.
const MESSAGE_CHARS: usize = 300;

/// A template that does not compile or cannot be rendered. The message is one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{template}{}: {reason}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
#[non_exhaustive]
pub struct TemplateError {
    /// The title by which messages name the template.
    pub template: String,
    /// The line in the template's source, from 1; `None` if it is unknown.
    pub line: Option<usize>,
    /// The defect, or the message that the template itself raised.
    pub reason: String,
    /// Whether the template took too much time or memory. The template is then at fault, not the
    /// values that were passed to it.
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
    title: String,
    /// Whether the source has the word `namespace`. Only namespaces can nest values to any depth.
    has_namespaces: bool,
}

impl Template {
    /// Compiles a template in which undefined variables are errors and the last newline is kept.
    /// Messages call the template `title`.
    ///
    /// # Errors
    /// [`TemplateError`] if the source is not valid Jinja or exceeds a limit.
    pub fn strict(title: &str, source: &str) -> Result<Self, TemplateError> {
        let mut environment = environment();
        // A strict template is a whole file, such as a prompt, so its last newline is part of the
        // text. By default Jinja drops that newline.
        environment.set_keep_trailing_newline(true);
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        Self::compile(title, source, environment)
    }

    /// Compiles `source`. The environment must come from [`environment`], which enforces the
    /// limits.
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
        // Python's Jinja also reads every line end of a template as a newline.
        let source = &source.replace("\r\n", "\n").replace('\r', "\n");
        // The check comes first, because the compiler recurses and folds constants without limits.
        check_tags(source, whitespace).map_err(|(line, reason)| failed(Some(line), reason))?;
        on_large_stack(|| environment.add_template_owned(NAME, source.clone()))
            .map_err(|panic| failed(None, panic))?
            .map_err(|error| failed(error.line(), message(&error)))?;
        let mut template = Self {
            environment,
            title: title.to_owned(),
            // True also for a template that only mentions the word, which then costs a thread per
            // rendering.
            has_namespaces: source.contains("namespace"),
        };
        let fuel = template.check_instructions()?;
        template.environment.set_fuel(Some(fuel));
        Ok(template)
    }

    /// Refuses instructions that load another template. Returns the number of instructions that a
    /// rendering may execute.
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
                    ) => "a template cannot load another one",
                    _ => continue,
                };
                return Err(self.failed(instructions.get_line(i), reason));
            }
        }
        // Writing a text costs one instruction however long the text is. A template with long texts
        // therefore gets fewer instructions.
        Ok(limits::FUEL.min((limits::RAW_BYTES / longest) as u64))
    }

    /// The template's environment, in which functions may be replaced after compilation.
    pub(crate) fn environment(&mut self) -> &mut Environment<'static> {
        &mut self.environment
    }

    /// Whether the template reads `variable` and does not set it first.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        let template = self.environment.get_template(NAME);
        template.is_ok_and(|template| template.undeclared_variables(false).contains(variable))
    }

    /// Renders the template with `values`. `input` is the number of bytes in `values` that come
    /// from the caller and not from the template's author. The limits grow with `input`.
    ///
    /// # Errors
    /// [`TemplateError`] with the message that the template raised, or the limit that it exceeded.
    pub fn render(&self, values: Value, input: usize) -> Result<String, TemplateError> {
        // A thread costs more than most renderings, so only templates that can nest deeply get one.
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
        // The guarded instructions borrow from the environment, so they cannot be stored next to
        // it.
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

    pub(crate) fn failed(&self, line: Option<usize>, reason: impl Into<String>) -> TemplateError {
        TemplateError::new(&self.title, line, reason.into())
    }
}

/// Replaces operators in compiled instructions by calls of filters. A call takes as many arguments
/// as the operator and leaves one result, so jump targets stay valid.
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
            // The limit on the source's length keeps `n` within 16 bits.
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

/// Refuses sources that would exhaust the compiler's stack, or its memory for constants. Invalid
/// Jinja passes, because the compiler reports it better.
fn check_tags(source: &str, whitespace: WhitespaceConfig) -> Result<(), (usize, String)> {
    #[derive(Default)]
    struct Tag {
        tokens: usize,
        products: i32,
        /// The total bytes of the tag's string constants.
        strings: usize,
        /// The sum of the tag's number constants, which is an upper bound for each factor of a
        /// product.
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
            // The compiler evaluates products of constants, such as `'x' * 10**9`.
            Token::Str(text) => tag.strings += text.len(),
            Token::String(text) => tag.strings += text.len(),
            Token::Int(n) => tag.numbers += n as f64,
            Token::Int128(n) => tag.numbers += *n as f64,
            Token::Float(n) => tag.numbers += n.abs(),
            Token::Mul => tag.products += 1,
            // A power counts as 64 factors, more than any allowed repetition has.
            Token::Pow => tag.products += 64,
            // The count continues across tags, because each branch of an `if` has its own tag.
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

/// Runs `f` on a thread with a large stack. Fails if `f` panics or no thread can be started.
fn on_large_stack<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(limits::STACK_BYTES);
        match thread.spawn_scoped(scope, || caught(f)) {
            Ok(thread) => thread.join().expect("panics are caught"),
            Err(error) => Err(format!("no thread for it: {error}")),
        }
    })
}

/// Formats an error as one line of limited length.
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

/// Strips white space on both sides, like Python's `str.strip`.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Strips white space at the end, like Python's `str.rstrip`.
pub(crate) fn rstrip(text: &str) -> &str {
    text.trim_end_matches(is_space)
}

/// Tests like Python's `str.isspace`: Unicode's white space, and ASCII's four information
/// separators.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}
