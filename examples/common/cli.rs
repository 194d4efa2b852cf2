//! Arguments in, an exit code and two texts out.

use std::io::Write;
use std::ops::RangeInclusive;
use std::process::ExitCode;

/// Exit code: done.
pub(crate) const DONE: u8 = 0;
/// Exit code: done, and the answer is no: not placed, differs, a case failed.
pub(crate) const NO: u8 = 1;
/// Exit code: misuse, input that cannot be read, or an answer that cannot be written.
pub(crate) const MISUSE: u8 = 2;

/// Arguments of a program: options that take a value, flags that take none, and its usage text.
#[derive(Debug)]
pub(crate) struct Program {
    /// Printed for `--help`, and after a complaint.
    pub(crate) usage: &'static str,
    /// Options with a value, such as `--nodes`.
    pub(crate) options: &'static [&'static str],
    /// Options without, such as `--as-stored`.
    pub(crate) flags: &'static [&'static str],
}

/// The arguments of one call, each option at most once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments {
    given: Vec<(String, String)>,
}

/// How a program ends: nothing is printed before it is known.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Finish {
    /// The exit code.
    pub(crate) code: u8,
    /// Goes to standard output.
    pub(crate) out: String,
    /// Goes to standard error.
    pub(crate) err: String,
}

impl Finish {
    /// An end with something to say.
    pub(crate) fn with(code: u8, out: String) -> Finish {
        Finish { code, out, err: String::new() }
    }

    /// Misuse, or input that cannot be read: code 2, and nothing on standard output.
    pub(crate) fn fault(message: impl std::fmt::Display) -> Finish {
        let err = format!("error: {}\n", clipped(message));
        Finish { code: MISUSE, out: String::new(), err }
    }

    /// Arguments that make no sense.
    pub(crate) fn misuse(message: &str, usage: &str) -> Finish {
        let err = format!("error: {}\n\n{usage}", clipped(message));
        Finish { code: MISUSE, out: String::new(), err }
    }

    /// Prints both texts. A reader that has gone away is no reason to fail; an answer that cannot be
    /// written otherwise, such as to a full disk, is a fault.
    pub(crate) fn exit(self) -> ExitCode {
        let _ = std::io::stderr().lock().write_all(self.err.as_bytes());
        let mut out = std::io::stdout().lock();
        let written = out.write_all(self.out.as_bytes()).and_then(|()| out.flush());
        match written.err().and_then(|error| unwritten(&error)) {
            Some(code) => code.into(),
            None => self.code.into(),
        }
    }
}

/// The most characters of a complaint.
const LONGEST: usize = 2_000;

/// A complaint, which may repeat a line of the input, at a length that can be read.
fn clipped(message: impl std::fmt::Display) -> String {
    let mut text = message.to_string();
    if let Some((at, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// The exit code for an answer that could not be written, which is told on standard error; `None` if
/// its reader has gone away.
fn unwritten(error: &std::io::Error) -> Option<u8> {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        return None;
    }
    let _ = writeln!(std::io::stderr().lock(), "error: standard output: {error}");
    Some(MISUSE)
}

/// Prints a line of a program that shows its work as it goes; ends the program if the reader has gone
/// away, or if the line cannot be written.
pub(crate) fn print_line(line: std::fmt::Arguments<'_>) {
    if let Err(error) = writeln!(std::io::stdout().lock(), "{line}") {
        std::process::exit(unwritten(&error).unwrap_or(DONE).into());
    }
}

/// As `println!`, but a reader that has gone away is no panic.
#[allow(unused_macros, reason = "programs that print at their end do without")]
macro_rules! say {
    ($($part:tt)*) => { $crate::common::cli::print_line(format_args!($($part)*)) };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use say;

impl Program {
    /// Reads the arguments and runs `body`; `--help` and mistakes end here.
    pub(crate) fn run(
        &self,
        arguments: &[String],
        body: impl FnOnce(&Arguments) -> Result<Finish, Mistake>,
    ) -> Finish {
        let mistake = |text: &str| Finish::misuse(text, self.usage);
        match self.parse(arguments) {
            Ok(None) => Finish::with(DONE, self.usage.to_string()),
            Ok(Some(arguments)) => match body(&arguments) {
                Ok(finish) => finish,
                Err(Mistake::Usage(text)) => mistake(&text),
                Err(Mistake::Input(text)) => Finish::fault(text),
            },
            Err(text) => mistake(&text),
        }
    }

    /// As [`Program::run`], for the process: its arguments, its streams, its exit code.
    pub(crate) fn main(
        &self,
        body: impl FnOnce(&Arguments) -> Result<Finish, Mistake>,
    ) -> ExitCode {
        self.run_process(body).exit()
    }

    /// As [`Program::run`], with the arguments of the process.
    fn run_process(&self, body: impl FnOnce(&Arguments) -> Result<Finish, Mistake>) -> Finish {
        let arguments: Result<Vec<String>, _> =
            std::env::args_os().skip(1).map(std::ffi::OsString::into_string).collect();
        match arguments {
            Ok(arguments) => self.run(&arguments, body),
            Err(text) => Finish::fault(format!("argument {} is not UTF-8", text.display())),
        }
    }

    /// The arguments; `None` if help is asked for.
    fn parse(&self, arguments: &[String]) -> Result<Option<Arguments>, String> {
        let mut parsed = Arguments::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            if argument == "--help" || argument == "-h" {
                return Ok(None);
            }
            let (name, attached) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (argument.as_str(), None),
            };
            let value = if self.options.contains(&name) {
                let value = attached.or_else(|| rest.next().cloned());
                value.ok_or_else(|| format!("{name} needs a value"))?
            } else if self.flags.contains(&name) && attached.is_none() {
                String::new()
            } else {
                return Err(format!("unknown argument {argument:?}"));
            };
            if parsed.value(name).is_some() {
                return Err(format!("{name} is given twice"));
            }
            parsed.given.push((name.to_string(), value));
        }
        Ok(Some(parsed))
    }
}

/// Why a program cannot do what it was asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The arguments make no sense: the usage is printed too.
    Usage(String),
    /// An input named by the arguments cannot be used.
    Input(String),
}

impl Arguments {
    /// Adds an option that is not given; empty for a flag.
    pub(crate) fn add(&mut self, name: String, value: String) {
        self.given.push((name, value));
    }

    /// The value of an option, if given; empty for a flag.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    /// Whether a flag is given.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// A whole number within a range; `default` if the option is not given.
    pub(crate) fn number(
        &self,
        name: &str,
        default: u32,
        range: RangeInclusive<u32>,
    ) -> Result<u32, Mistake> {
        let Some(text) = self.value(name) else { return Ok(default) };
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let (low, high) = (range.start(), range.end());
            Mistake::Usage(format!("{name} {text:?} is not a whole number from {low} to {high}"))
        })
    }

    /// One of several words; the first if the option is not given.
    pub(crate) fn word<'a>(&self, name: &str, words: &[&'a str]) -> Result<&'a str, Mistake> {
        let wanted = self.value(name).unwrap_or(words[0]);
        words.iter().copied().find(|word| *word == wanted).ok_or_else(|| {
            Mistake::Usage(format!("{name} {wanted:?} is none of: {}", words.join(", ")))
        })
    }
}

/// The whole of a program without options: prints what `body` makes of no arguments.
pub(crate) fn plain(
    usage: &'static str,
    body: impl FnOnce() -> Result<String, Box<dyn std::error::Error>>,
) -> ExitCode {
    Program { usage, options: &[], flags: &[] }.main(|_| match body() {
        Ok(text) => Ok(Finish::with(DONE, text)),
        Err(error) => Err(Mistake::Input(error.to_string())),
    })
}

/// The whole of a program without options whose answer may be no: exit code 0 if `body` says yes, 1
/// if it says no, 2 for misuse. Prints the text that goes with the answer.
pub(crate) fn answer(
    usage: &'static str,
    body: impl FnOnce() -> Result<(bool, String), Box<dyn std::error::Error>>,
) -> ExitCode {
    let program = Program { usage, options: &[], flags: &[] };
    program.main(|_| match body() {
        Ok((yes, text)) => Ok(Finish::with(if yes { DONE } else { NO }, text)),
        Err(error) => Err(Mistake::Input(error.to_string())),
    })
}
