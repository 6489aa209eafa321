//! The command `sandbox` of programs that are launchers.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::{Protection, Sandbox};
use crate::{LaunchError, Launcher};

/// Runs the command `sandbox` with the arguments after its name: options, `--`, a program and its
/// arguments. The streams of this process are the program's. Returns the exit code, and a line for
/// standard error if a limit ended the program or the layers were asked for.
///
/// # Errors
/// Returns an error for options that do not exist, and the errors of [`Sandbox::run`].
pub fn sandbox_command(
    launcher: Launcher,
    arguments: &[OsString],
) -> Result<(u8, Option<String>), LaunchError> {
    let asked = Asked::parse(launcher, arguments)?;
    let Asked {
        sandbox,
        shows_layers,
        program,
        arguments,
    } = &asked;
    run_sandboxed(sandbox, *shows_layers, program, arguments)
}

/// Runs a program with the standard streams of this process, for programs that have a sandbox as a
/// command. Returns the exit code, and a line for standard error: the layers if `shows_layers`, and
/// the limit that ended the program.
///
/// # Errors
/// Returns an error if the system lacks a protection that is needed, or the program cannot start.
pub fn run_sandboxed(
    sandbox: &Sandbox,
    shows_layers: bool,
    program: &OsStr,
    arguments: &[OsString],
) -> Result<(u8, Option<String>), LaunchError> {
    let program = Path::new(program);
    let (ended, layers) =
        sandbox.run(program, arguments, io::stdin(), io::stdout(), io::stderr())?;
    let mut lines = Vec::new();
    if shows_layers {
        lines.push(format!("layers: {}", layers.join(", ")));
    }
    let limit = ended.limit();
    lines.extend(limit.map(|limit| format!("ended by the limit on {limit}")));
    let line = Some(lines.join("; ")).filter(|line| !line.is_empty());
    Ok((ended.exit_code(), line))
}

/// The command line, read.
#[derive(Debug)]
struct Asked {
    sandbox: Sandbox,
    shows_layers: bool,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Asked {
    fn parse(launcher: Launcher, arguments: &[OsString]) -> Result<Self, LaunchError> {
        let mut sandbox = Sandbox {
            launcher,
            ..Sandbox::default()
        };
        let mut shows_layers = false;
        let mut rest = arguments.iter();
        loop {
            let Some(option) = rest.next() else {
                return Err(wrong("no program is named"));
            };
            let name = option.to_str().unwrap_or_default();
            if name == "--" {
                break;
            }
            if name == "--show-layers" {
                shows_layers = true;
                continue;
            }
            let value = rest.next().map(OsString::as_os_str);
            let value = value.ok_or_else(|| wrong(format!("{name} needs a value")))?;
            let limits = &mut sandbox.limits;
            match name {
                "--sandbox" => sandbox.protection = protection(value)?,
                "--read" => sandbox.readable.push(value.into()),
                "--cpu" => limits.cpu_seconds = Some(number(name, value)?),
                "--wall" => sandbox.wall = Duration::from_secs(number(name, value)?),
                "--memory" => limits.memory = Some(number(name, value)?),
                "--processes" => limits.processes = Some(number(name, value)?),
                "--open-files" => limits.open_files = Some(number(name, value)?),
                "--file-size" => limits.file_size = Some(number(name, value)?),
                "--output" => sandbox.output = number(name, value)?,
                "--scratch" => sandbox.scratch = number(name, value)?,
                _ => return Err(wrong(format!("{} is not an option", option.display()))),
            }
        }
        let Some((program, arguments)) = rest.as_slice().split_first() else {
            return Err(wrong("no program is named"));
        };
        Ok(Self {
            sandbox,
            shows_layers,
            program: program.clone(),
            arguments: arguments.to_vec(),
        })
    }
}

fn protection(value: &OsStr) -> Result<Protection, LaunchError> {
    match value.to_str() {
        Some("full") => Ok(Protection::Full),
        Some("none") => Ok(Protection::None),
        _ => Err(wrong("--sandbox is full or none")),
    }
}

/// Reads a number that is greater than 0.
fn number(name: &str, value: &OsStr) -> Result<u64, LaunchError> {
    let number = value.to_str().and_then(|value| value.parse().ok());
    // The wall clock is a point in time, which has a bound far above any use.
    number
        .filter(|number| (1..1 << 53).contains(number))
        .ok_or_else(|| wrong(format!("{name} needs a whole number above 0")))
}

fn wrong(message: impl Into<String>) -> LaunchError {
    LaunchError::Arguments(message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Asked, LaunchError> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Asked::parse(Launcher::new("launcher"), &words)
    }

    #[test]
    fn options_stand_before_the_program() {
        let line =
            "--cpu 3 --wall 4 --memory 5 --processes 6 --output 7 --read /a --read /b -- p --cpu 9";
        let asked = parse(line).expect("options");
        let limits = asked.sandbox.limits;
        assert_eq!((limits.cpu_seconds, limits.memory), (Some(3), Some(5)));
        assert_eq!((limits.processes, asked.sandbox.output), (Some(6), 7));
        assert_eq!(asked.sandbox.wall, Duration::from_secs(4));
        assert_eq!(asked.sandbox.readable.len(), 2);
        assert_eq!(asked.sandbox.protection, Protection::Full);
        assert_eq!((asked.program, asked.arguments.len()), ("p".into(), 2));
        let open = parse("--sandbox none -- p").expect("options");
        assert_eq!(open.sandbox.protection, Protection::None);
    }

    #[test]
    fn other_options_are_refused() {
        for (line, word) in [
            ("", "no program"),
            ("--", "no program"),
            ("--cpu 3", "no program"),
            ("--cpu", "needs a value"),
            ("--cpu x -- p", "whole number"),
            ("--wall 0 -- p", "whole number"),
            ("--sandbox off -- p", "full or none"),
            ("--net on -- p", "not an option"),
            ("p", "needs a value"),
        ] {
            let error = parse(line).expect_err(line);
            let text = error.to_string();
            assert!(
                text.contains(word) && text.lines().count() == 1,
                "{line}: {text}"
            );
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
