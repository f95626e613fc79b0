//! A small mail server on loopback, with enough of SMTP to accept or refuse a message.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::peer::Heard;

/// How the server behaves.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    Friendly,
    /// Requires authentication.
    WithPassword,
    /// Answers the recipient with this reply.
    Refusing(&'static str),
    /// Never replies.
    Silent,
    /// Closes the connection in the middle of a message.
    HangingUp,
}

/// A server that runs until it is dropped. It records what it receives, line by line.
pub(crate) struct MailPeer {
    pub(crate) port: u16,
    pub(crate) heard: Heard,
    serving: JoinHandle<()>,
}

impl MailPeer {
    pub(crate) async fn serve(manner: Manner) -> MailPeer {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Heard::default();
        let written_down = heard.clone();
        let serving = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(converse(stream, manner, written_down.clone()));
            }
        });
        MailPeer { port, heard, serving }
    }
}

impl Drop for MailPeer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn converse(stream: TcpStream, manner: Manner, heard: Heard) {
    let (reading, mut writing) = stream.into_split();
    let mut lines = BufReader::new(reading).lines();
    if matches!(manner, Manner::Silent) {
        heard.add("connected");
        return std::future::pending().await;
    }
    writing.write_all(b"220 peer.test ESMTP\r\n").await.unwrap();
    while let Ok(Some(line)) = lines.next_line().await {
        heard.add(&line);
        let command = line.split([' ', ':']).next().unwrap().to_ascii_uppercase();
        let answer = match (command.as_str(), manner) {
            ("EHLO", Manner::WithPassword) => "250-peer.test\r\n250 AUTH PLAIN",
            ("AUTH", _) => "235 welcome",
            ("RCPT", Manner::Refusing(answer)) => answer,
            ("DATA", Manner::HangingUp) => return,
            ("DATA", _) => "354 go on",
            ("QUIT", _) => "221 bye",
            _ => "250 peer.test",
        };
        writing.write_all(format!("{answer}\r\n").as_bytes()).await.unwrap();
        if command == "DATA" {
            while let Ok(Some(line)) = lines.next_line().await {
                if line == "." {
                    break;
                }
                heard.add(line);
            }
            writing.write_all(b"250 taken\r\n").await.unwrap();
        }
    }
}
