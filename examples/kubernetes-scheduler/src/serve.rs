//! `/metrics`, `/healthz` and `/readyz` over plain HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use crate::decide::{Input, Pulse};
use crate::log;

/// State that the server reads.
#[derive(Clone)]
pub struct Health {
    pub pulse: Arc<Pulse>,
    pub start: Instant,
    /// The way to the decisions; `None` while another replica leads.
    pub inputs: watch::Receiver<Option<Sender<Input>>>,
}

/// The time after which decisions that give no sign of life are taken for dead.
const DEAD: Duration = Duration::from_secs(60);

/// Binds the address and serves for ever.
pub async fn start(address: SocketAddr, health: Health) -> Result<(), String> {
    let listener = TcpListener::bind(address).await.map_err(|error| error.to_string())?;
    log!(info, "metrics are served", address = listener.local_addr().unwrap_or(address));
    tokio::spawn(async move {
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                let answer = answer(stream, health.clone());
                tokio::spawn(tokio::time::timeout(Duration::from_secs(10), answer));
            }
        }
    });
    Ok(())
}

async fn answer(mut stream: TcpStream, health: Health) -> std::io::Result<()> {
    let mut request = vec![0; 4_096];
    let mut read = 0;
    while read < request.len() && !request[..read].windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut request[read..]).await? {
            0 => break,
            more => read += more,
        }
    }
    let request = String::from_utf8_lossy(&request[..read]);
    let path = request.split_whitespace().nth(1).unwrap_or("");
    let (status, body) = match path.split('?').next().unwrap_or("") {
        "/metrics" => ("200 OK", metrics(&health).await),
        "/healthz" | "/livez" if health.alive() => ("200 OK", "ok\n".to_owned()),
        "/readyz" if health.ready() => ("200 OK", "ok\n".to_owned()),
        "/healthz" | "/livez" => ("500 Internal Server Error", "no sign of life\n".to_owned()),
        "/readyz" => ("503 Service Unavailable", "objects are being listed\n".to_owned()),
        _ => ("404 Not Found", "/metrics, /healthz, /readyz\n".to_owned()),
    };
    let length = body.len();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await
}

async fn metrics(health: &Health) -> String {
    let inputs = health.inputs.borrow().clone();
    let Some(inputs) = inputs else { return String::new() };
    let (sender, receiver) = oneshot::channel();
    let _ = inputs.send(Input::Scrape(sender));
    receiver.await.unwrap_or_default()
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
