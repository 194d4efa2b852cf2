//! The command line `phalanx`: questions to a scheduler that runs, and replays of its snapshots.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use phalanx::queue::SavedScheduler;
use phalanx::simulate::{Record, Replay};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::config::{File, Settings};
use crate::profile::Parts;
use crate::{ask, page, serve};

const USAGE: &str = "usage: phalanx why GROUP [OPTIONS]
       phalanx what-if FILE [OPTIONS]        (- reads standard input)
       phalanx snapshot [FILE] [OPTIONS]
       phalanx replay FILE [--config FILE]

  why       why a group waits, what would help, and when it was promised a start
  what-if   whether the groups of a manifest would start, where, and who would go; nothing changes
  snapshot  the scheduler's state and its next decisions, as JSON lines
  replay    makes the decisions of a snapshot again; exit code 1 if one differs

  --address URL      the scheduler's --listen address (default: http://127.0.0.1:10259)
  --token FILE       the token, where it asks for one
  --ca FILE          the certificate that an https:// address is trusted by
  --output FORM      text or json (why, what-if; default: text)
  --config FILE      the scheduler's configuration, for its plugins (replay)
  --help             this text";

/// The time for an answer.
const PATIENCE: Duration = Duration::from_secs(90);

/// A failure: misuse, or the reason why there is no answer.
enum Fault {
    Usage(String),
    Failed(String),
}

impl From<String> for Fault {
    fn from(reason: String) -> Fault {
        Fault::Failed(reason)
    }
}

#[derive(Default)]
struct Options {
    words: Vec<String>,
    address: Option<String>,
    token: Option<PathBuf>,
    ca: Option<PathBuf>,
    config: Option<PathBuf>,
    json: bool,
}

/// Runs a command. Exit code 0: answered; 1: no answer, or a replay differs; 2: misuse.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = crate::text(arguments).map_err(Fault::Usage);
    match arguments.and_then(|arguments| run(arguments.into_iter())) {
        Ok(code) => code,
        Err(Fault::Usage(reason)) => {
            eprintln!("phalanx: {reason}\n\n{USAGE}");
            ExitCode::from(2)
        }
        Err(Fault::Failed(reason)) => {
            eprintln!("phalanx: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: impl Iterator<Item = String>) -> Result<ExitCode, Fault> {
    let options = options(arguments)?;
    let words: Vec<&str> = options.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["help"] => print(USAGE).map(|()| ExitCode::SUCCESS),
        ["why", group] => {
            let path = format!("/why?group={}", page::encode(group));
            show(&options, &fetch(&options, "GET", &path, "")?)
        }
        ["what-if", file] => {
            let manifest = manifest(file)?;
            show(&options, &fetch(&options, "POST", "/what-if", &manifest)?)
        }
        ["snapshot"] => {
            print(fetch(&options, "GET", "/snapshot", "")?.trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
        ["snapshot", file] => {
            keep(Path::new(file), &fetch(&options, "GET", "/snapshot", "")?)?;
            Ok(ExitCode::SUCCESS)
        }
        ["replay", file] => replay(Path::new(file), options.config.as_deref()),
        [] => Err(Fault::Usage("a command is missing".to_owned())),
        [command @ ("why" | "what-if" | "snapshot" | "replay"), ..] => {
            Err(Fault::Usage(format!("{command}: one name is needed")))
        }
        [command, ..] => Err(Fault::Usage(format!("{command}: there is no such command"))),
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, Fault> {
    let mut options = Options::default();
    while let Some(argument) = arguments.next() {
        let (flag, inline) = match argument.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
            _ => (argument.as_str(), None),
        };
        let mut value = || {
            let missing = || Fault::Usage(format!("{flag}: a value is missing"));
            inline.clone().or_else(|| arguments.next()).ok_or_else(missing)
        };
        match flag {
            "--help" | "-h" if inline.is_some() => {
                return Err(Fault::Usage(format!("{flag}: it takes no value")));
            }
            "--help" | "-h" => options.words = vec!["help".to_owned()],
            "--address" => options.address = Some(value()?),
            "--token" => options.token = Some(value()?.into()),
            "--ca" => options.ca = Some(value()?.into()),
            "--config" => options.config = Some(value()?.into()),
            "--output" => {
                options.json = match value()?.as_str() {
                    "json" => true,
                    "text" => false,
                    other => {
                        return Err(Fault::Usage(format!("--output: {other} is not text or json")));
                    }
                }
            }
            _ if flag.starts_with("--") => {
                return Err(Fault::Usage(format!("{flag}: there is no such option")));
            }
            _ => options.words.push(argument.clone()),
        }
        if options.words == ["help"] {
            break;
        }
    }
    Ok(options)
}

fn manifest(file: &str) -> Result<String, Fault> {
    let mut text = String::new();
    let read = if file == "-" {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(file).map(|own| text = own)
    };
    read.map_err(|error| format!("{file}: {error}"))?;
    Ok(text)
}

/// Writes to standard output; a reader that has gone is an error.
fn print(text: &str) -> Result<(), Fault> {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|error| Fault::Failed(format!("standard output: {error}")))
}

/// Writes a file whole or not at all; a device or a pipe takes its bytes as they come.
fn keep(path: &Path, text: &str) -> Result<(), Fault> {
    let fault = |error: std::io::Error| Fault::Failed(format!("{}: {error}", path.display()));
    match std::fs::metadata(path) {
        Ok(known) if !known.is_file() => return std::fs::write(path, text).map_err(fault),
        Ok(known) if known.permissions().readonly() => {
            return Err(fault(std::io::ErrorKind::PermissionDenied.into()));
        }
        _ => {}
    }
    // Behind a link is the file that is meant.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let mut part = target.clone().into_os_string();
    part.push(format!(".{}.part", std::process::id()));
    let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &target));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&part);
        fault(error)
    })
}

fn show(options: &Options, body: &str) -> Result<ExitCode, Fault> {
    let data: Value = serde_json::from_str(body)
        .map_err(|error| Fault::Failed(format!("the answer is no JSON: {error}")))?;
    let text = if options.json { data.to_string() } else { ask::text(&data) };
    print(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Sends a request and reads the body of its answer.
fn fetch(options: &Options, method: &str, path: &str, body: &str) -> Result<String, Fault> {
    let address = options.address.as_deref().unwrap_or("http://127.0.0.1:10259");
    let (encrypted, rest) = match address.split_once("://") {
        Some(("http", rest)) => (false, rest),
        Some(("https", rest)) => (true, rest),
        _ => return Err(Fault::Usage(format!("--address: {address} is no http:// or https://"))),
    };
    let host = rest.trim_end_matches('/');
    let token = options.token.as_deref().map(serve::token).transpose()?;
    let token = token.map_or(String::new(), |own| format!("Authorization: Bearer {own}\r\n"));
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n{token}\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        let stream = TcpStream::connect(host).await.map_err(|error| error.to_string())?;
        if !encrypted {
            return converse(stream, &request).await;
        }
        let ca = options.ca.as_deref().ok_or("an https:// address needs --ca")?;
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let stream = connector(ca)?.connect(name, stream).await;
        converse(stream.map_err(|error| error.to_string())?, &request).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let late = Err("no answer in time".to_owned());
    let answer =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, exchange).await.unwrap_or(late) });
    let answer = answer.map_err(|reason| format!("{address}: {reason}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status == "200" {
        return Ok(body.to_owned());
    }
    let status = if status.is_empty() { "no answer of HTTP" } else { status };
    Err(Fault::Failed(format!("{address}: {status}: {}", body.trim())))
}

fn connector(ca: &Path) -> Result<TlsConnector, String> {
    let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", ca.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).map_err(|error| fault(&error))? {
        let certificate = certificate.map_err(|error| fault(&error))?;
        roots.add(certificate).map_err(|error| fault(&error))?;
    }
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn converse<S>(mut stream: S, request: &str) -> Result<String, String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let exchange = async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer = exchange.await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Makes the decisions of a snapshot again, with the plugins of a configuration.
fn replay(path: &Path, config: Option<&Path>) -> Result<ExitCode, Fault> {
    let file = match config {
        Some(config) => Settings::file(config)?,
        None => File::default(),
    };
    // Settings are part of the snapshot; plugins and the choice of victims are code.
    let parts = Parts::new(&file, 0)?;
    let fault = |at: usize, error: &dyn std::fmt::Display| {
        Fault::Failed(format!("{}: line {at}: {error}", path.display()))
    };
    let opened = std::fs::File::open(path);
    let opened = opened.map_err(|error| format!("{}: {error}", path.display()))?;
    let mut replay = None;
    let mut lines = 0;
    for (line, at) in BufReader::new(opened).lines().zip(1..) {
        let line = line.map_err(|error| fault(at, &error))?;
        lines = at;
        let Some(replay) = &mut replay else {
            let saved: SavedScheduler =
                serde_json::from_str(&line).map_err(|error| fault(at, &error))?;
            replay = Some(Replay::new(parts.restore(saved)));
            continue;
        };
        let record: Record = serde_json::from_str(&line).map_err(|error| fault(at, &error))?;
        if let Err(difference) = replay.step(&record) {
            print(difference.to_string().trim_end())?;
            return Ok(ExitCode::FAILURE);
        }
    }
    if replay.is_none() {
        return Err(Fault::Failed(format!("{}: it is empty", path.display())));
    }
    print(&format!("{lines} lines, the same decisions"))?;
    Ok(ExitCode::SUCCESS)
}
