//! The page, the questions, metrics and health over HTTP, with TLS and a token where others can reach it.
//!
//! | address | `/healthz`, `/readyz` | everything else |
//! |---|---|---|
//! | loopback | open | open, to requests that name a loopback host |
//! | any other, with certificate and token | open | with the token |
//! | any other | open | refused |

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use phalanx_kubernetes_client::api::Counts;
use phalanx_kubernetes_client::log;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::ask::{Asked, Question, Reply};
use crate::config::Serving;
use crate::decide::{Input, Pulse};
use crate::{metrics, page};

/// State that the server reads.
#[derive(Clone)]
pub struct Health {
    pub pulse: Arc<Pulse>,
    pub start: Instant,
    /// The way to the decisions; `None` while another replica leads.
    pub inputs: watch::Receiver<Option<Sender<Input>>>,
    pub api: Arc<Counts>,
}

/// The time after which decisions that give no sign of life are taken for dead.
const DEAD: Duration = Duration::from_secs(60);
/// The longest time of an exchange.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest time until a request is there.
const ARRIVAL: Duration = Duration::from_secs(10);
/// The largest head and body of a request, in bytes.
const HEAD: usize = 16 << 10;
const BODY: usize = 4 << 20;

/// Who may ask what.
#[derive(Clone)]
struct Access {
    is_loopback: bool,
    is_encrypted: bool,
    token: Option<Arc<str>>,
}

/// Binds the address and serves for ever.
///
/// # Errors
/// The address is taken, or a file of the certificate or token cannot be used.
pub async fn start(address: SocketAddr, serving: &Serving, health: Health) -> Result<(), String> {
    let tls = match (&serving.certificate, &serving.key) {
        (Some(certificate), Some(key)) => Some(acceptor(certificate, key)?),
        (None, None) => None,
        _ => return Err("serving: certificate and key go together".to_owned()),
    };
    let token = serving.token.as_deref().map(token).transpose()?;
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| format!("--listen {address}: {error}"))?;
    let access = Access {
        is_loopback: address.ip().is_loopback(),
        is_encrypted: tls.is_some(),
        token: token.map(Into::into),
    };
    let own = listener.local_addr().unwrap_or(address);
    log!(info, "metrics are served", address = own, tls = access.is_encrypted);
    if !access.is_loopback && (!access.is_encrypted || access.token.is_none()) {
        let reason = "it is no loopback address, and there is no certificate or no token";
        log!(warn, "only health is served", reason = reason);
    }
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (health, access, tls) = (health.clone(), access.clone(), tls.clone());
            tokio::spawn(tokio::time::timeout(PATIENCE, async move {
                match tls {
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => exchange(stream, &health, &access).await,
                        Err(error) => Err(error),
                    },
                    None => exchange(stream, &health, &access).await,
                }
            }));
        }
    });
    Ok(())
}

fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let fault = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| fault(certificate, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| fault(key, &error))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| fault(certificate, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The token in a file.
pub fn token(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
    match text.trim() {
        "" => Err(format!("{}: the token is empty", path.display())),
        token => Ok(token.to_owned()),
    }
}

/// A request, as far as it is read here.
#[derive(Default)]
struct Request {
    method: String,
    path: String,
    query: String,
    host: String,
    authorization: String,
    wants_page: bool,
    body: String,
}

/// An answer of HTTP.
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

impl Answer {
    fn text(status: &'static str, body: &str) -> Answer {
        Answer { status, kind: TEXT, body: format!("{body}\n") }
    }
}

async fn exchange<S>(mut stream: S, health: &Health, access: &Access) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let answer = match tokio::time::timeout(ARRIVAL, read(&mut stream)).await {
        Ok(Ok(Some(request))) => answer(request, health, access).await,
        Ok(Ok(None)) => Answer::text("413 Content Too Large", "the request is too large"),
        Ok(Err(error)) => return Err(error),
        Err(_) => return Ok(()),
    };
    let Answer { status, kind, body } = answer;
    let mut head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; \
         frame-ancestors 'none'\r\n",
        body.len()
    );
    if status.starts_with("401") {
        head.push_str("WWW-Authenticate: Basic realm=\"phalanx\"\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// Reads a request; `None` if it is too large.
async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> std::io::Result<Option<Request>> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break at + 4;
        }
        if bytes.len() > HEAD || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split_whitespace();
    let mut request =
        Request { method: words.next().unwrap_or_default().into(), ..Request::default() };
    let address = words.next().unwrap_or_default();
    let (path, query) = address.split_once('?').unwrap_or((address, ""));
    (request.path, request.query) = (path.to_owned(), query.to_owned());
    let mut length = 0;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap_or(usize::MAX),
            "host" => value.clone_into(&mut request.host),
            "authorization" => value.clone_into(&mut request.authorization),
            "accept" => request.wants_page = value.contains("text/html"),
            _ => {}
        }
    }
    if length > BODY {
        return Ok(None);
    }
    let mut body = bytes.split_off(end);
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            break;
        }
    }
    body.truncate(length);
    request.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(request))
}

impl Access {
    /// The refusal of a request for more than health.
    fn refusal(&self, request: &Request) -> Option<Answer> {
        if self.token.is_none() || !self.is_encrypted {
            if !self.is_loopback {
                let reason = "this needs a certificate and a token (serving in the configuration)";
                return Some(Answer::text("403 Forbidden", reason));
            }
            // A page of elsewhere must not read this one under a name of its own.
            if !names_loopback(&request.host) {
                return Some(Answer::text("403 Forbidden", "ask for a loopback host"));
            }
        }
        let token = self.token.as_deref()?;
        let (scheme, given) = request.authorization.split_once(' ').unwrap_or_default();
        let given = match scheme.to_ascii_lowercase().as_str() {
            "bearer" => given.trim().to_owned(),
            // A browser asks for a name and a password: the password is the token.
            "basic" => {
                let text = from_base64(given.trim()).unwrap_or_default();
                text.split_once(':').map(|(_, token)| token.to_owned()).unwrap_or_default()
            }
            _ => String::new(),
        };
        (!is_same(&given, token)).then(|| Answer::text("401 Unauthorized", "the token is missing"))
    }
}

/// Whether two texts are equal, in a time that does not tell where they differ.
fn is_same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

fn names_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = |ip: std::net::IpAddr| ip.is_loopback();
    name.is_empty() || name == "localhost" || name.parse().is_ok_and(is_loopback)
}

/// The text of a base64 with the standard alphabet; `None` if it is none.
fn from_base64(text: &str) -> Option<String> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for character in text.trim_end_matches('=').bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    String::from_utf8(bytes).ok()
}

async fn answer(request: Request, health: &Health, access: &Access) -> Answer {
    match request.path.as_str() {
        "/healthz" | "/livez" if health.alive() => return Answer::text("200 OK", "ok"),
        "/readyz" if health.ready() => return Answer::text("200 OK", "ok"),
        "/healthz" | "/livez" => {
            return Answer::text("500 Internal Server Error", "no sign of life");
        }
        "/readyz" => {
            return Answer::text("503 Service Unavailable", "objects are being listed");
        }
        _ => {}
    }
    if let Some(refusal) = access.refusal(&request) {
        return refusal;
    }
    let field = |name: &str| {
        let parts = request.query.split('&');
        let own = parts.filter_map(|part| part.split_once('=')).find(|(own, _)| *own == name);
        own.map_or_else(String::new, |(_, value)| page::decode(value))
    };
    let (question, method) = match request.path.as_str() {
        "/metrics" => (Question::Metrics, "GET"),
        "/" => (Question::Overview, "GET"),
        "/nodes" => {
            let path = field("path");
            let path = path.split('/').filter(|part| !part.is_empty()).map(str::to_owned);
            (Question::Nodes(path.collect()), "GET")
        }
        "/why" => (Question::Why(field("group")), "GET"),
        "/snapshot" => (Question::Snapshot, "GET"),
        "/what-if" => {
            // A form sends the name of its field first.
            let body = request.body.strip_prefix("manifest=").unwrap_or(&request.body);
            (Question::WhatIf(body.to_owned()), "POST")
        }
        _ => {
            let paths = "/, /nodes, /why?group=, /what-if, /snapshot, /metrics, /healthz, /readyz";
            return Answer::text("404 Not Found", paths);
        }
    };
    if request.method != method && !(method == "GET" && request.method == "HEAD") {
        return Answer::text("405 Method Not Allowed", &format!("{method} it"));
    }
    let wants_page = request.wants_page;
    let reply = match ask(health, question.clone()).await {
        Some(reply) => reply,
        None if question == Question::Metrics => Reply::Text(metrics::follower(&health.api)),
        None => Reply::Fault(503, "another replica leads; ask that one".to_owned()),
    };
    shown(&question, reply, wants_page)
}

/// A reply as it was asked for: a page for people with a browser, JSON for others.
fn shown(question: &Question, reply: Reply, wants_page: bool) -> Answer {
    let kind = match question {
        Question::Metrics => METRICS,
        Question::Snapshot => "application/x-ndjson",
        _ => JSON,
    };
    let page = |data: &Value| match question {
        Question::Overview => page::overview(data),
        Question::Nodes(_) => page::nodes(data),
        Question::Why(_) => page::answer("Why it waits", data),
        _ => page::answer("What if", data),
    };
    match reply {
        Reply::Text(body) => Answer { status: "200 OK", kind, body },
        Reply::Data(data) if wants_page => {
            Answer { status: "200 OK", kind: HTML, body: page(&data) }
        }
        Reply::Data(data) => Answer { status: "200 OK", kind, body: format!("{data}\n") },
        Reply::Fault(code, reason) => {
            let status = match code {
                400 => "400 Bad Request",
                404 => "404 Not Found",
                409 => "409 Conflict",
                503 => "503 Service Unavailable",
                _ => "500 Internal Server Error",
            };
            if wants_page {
                return Answer { status, kind: HTML, body: page::fault(code, &reason) };
            }
            Answer::text(status, &reason)
        }
    }
}

/// Asks the decisions; `None` if another replica leads, or they have ended.
async fn ask(health: &Health, question: Question) -> Option<Reply> {
    let inputs = health.inputs.borrow().clone()?;
    let (answer, receiver) = oneshot::channel();
    inputs.send(Input::Ask(Asked { question, answer })).ok()?;
    receiver.await.ok()
}

impl Health {
    fn leads(&self) -> bool {
        self.inputs.borrow().is_some()
    }

    fn alive(&self) -> bool {
        let last = Duration::from_millis(self.pulse.last.load(Ordering::Relaxed));
        !self.leads() || self.start.elapsed().saturating_sub(last) < DEAD
    }

    /// A replica that waits for the lease is ready to take over.
    fn ready(&self) -> bool {
        !self.leads() || self.pulse.synced.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(is_loopback: bool, is_encrypted: bool, token: Option<&str>) -> Access {
        Access { is_loopback, is_encrypted, token: token.map(Into::into) }
    }

    fn refused(access: &Access, host: &str, authorization: &str) -> Option<&'static str> {
        let request = Request {
            host: host.to_owned(),
            authorization: authorization.to_owned(),
            ..Request::default()
        };
        access.refusal(&request).map(|answer| &answer.status[..3])
    }

    #[test]
    fn loopback_is_open_to_itself_only() {
        let open = access(true, false, None);
        for host in ["127.0.0.1:10259", "localhost:80", "[::1]:80", ""] {
            assert_eq!(refused(&open, host, ""), None, "{host}");
        }
        for host in ["evil.example:10259", "10.0.0.1", "[fe80::1]:80"] {
            assert_eq!(refused(&open, host, ""), Some("403"), "{host}");
        }
    }

    #[test]
    fn beyond_loopback_both_certificate_and_token_are_needed() {
        let right = "Bearer secret";
        assert_eq!(refused(&access(false, false, Some("secret")), "", right), Some("403"));
        assert_eq!(refused(&access(false, true, None), "", right), Some("403"));
        let both = access(false, true, Some("secret"));
        assert_eq!(refused(&both, "phalanx.kube-system", right), None);
        // "operator:secret"
        assert_eq!(refused(&both, "", "Basic b3BlcmF0b3I6c2VjcmV0"), None);
        for wrong in ["", "Bearer", "Bearer secre", "Bearer secrets", "Basic !", "Basic c2VjcmV0"] {
            assert_eq!(refused(&both, "", wrong), Some("401"), "{wrong}");
        }
    }

    #[test]
    fn base64_is_that_of_the_specification() {
        for (text, code) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(from_base64(code).as_deref(), Some(text));
        }
        assert_eq!(from_base64("Zg*="), None);
    }
}
