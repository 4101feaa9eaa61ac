//! Ranks that exchange over RDMA: how they meet.
//!
//! A rank opens its queue pairs and tells its starter what each other one must know of them; the starter hands that round.
//! It does so twice, because nobody may send before the other end is connected: what is said the second time is nothing.
//!
//! ```text
//! rank      open ── words to each ──►   connect ── (empty) ──►   run
//! starter                   hand round                hand round
//! ```

use std::fmt::Display;
use std::io::{self, Write as _};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use umbra::advect::{AdvectError, Options};
use umbra::boundary::{Greeting, VerbsRing};
use umbra::verbs::Choice;

use super::children::{Line, Ranks, Said, ended, failure};
use crate::cli::Failure;

/// How often words are handed round.
const ROUNDS: usize = 2;

/// Hands round what ranks say to each other until all are connected.
pub(super) fn introduce(ranks: &mut Ranks, hear: &Receiver<Said>, patience: Duration) -> Result<(), AdvectError> {
    let count = ranks.0.len();
    for _ in 0..ROUNDS {
        let end = Instant::now() + patience;
        let mut said: Vec<Option<Vec<String>>> = vec![None; count];
        while let Some(missing) = said.iter().position(Option::is_none) {
            match hear.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok((rank, Some(Ok(Line::Words(words))))) if words.len() == count => said[rank as usize] = Some(words),
                Ok((rank, line)) => return Err(failure(ranks, rank, line)),
                Err(_) => return Err(ended(missing as u32, "it did not open its queue pairs in time")),
            }
        }
        for (to, rank) in ranks.0.iter_mut().enumerate() {
            let words: Vec<&str> = said.iter().flatten().map(|words| words[to].as_str()).collect();
            let line = serde_json::to_string(&words).map_err(|why| ended(to as u32, why))?;
            let told = rank.stdin.as_mut().map_or(Ok(()), |input| writeln!(input, "{line}"));
            told.map_err(|why| ended(to as u32, why))?;
        }
    }
    Ok(())
}

/// The end of one rank, connected to all others, which `say` tells the starter.
pub(super) fn meet(
    options: &Options,
    rank: u32,
    device: Option<&Choice>,
    mut say: impl FnMut(&Line) -> Result<(), Failure>,
) -> Result<VerbsRing, AdvectError> {
    let named = |why: &dyn Display| AdvectError::Rank(format!("rank {rank}: {why}"));
    let port = Choice::open(device).map_err(|why| named(&why))?;
    let mut ring = VerbsRing::new(&port, options.extent()?, rank).map_err(|why| named(&why))?;
    let mut round = |words: Vec<String>| -> Result<Vec<String>, AdvectError> {
        let mut heard = String::new();
        let said = say(&Line::Words(words)).map_err(|_| named(&"its starter does not listen"));
        said.and_then(|()| io::stdin().read_line(&mut heard).map_err(|why| named(&why)))?;
        serde_json::from_str(&heard).map_err(|why| named(&why))
    };
    let greeting = |to| ring.greeting(to).map_or_else(String::new, |greeting| BASE64.encode(&greeting.to_bytes()));
    let greetings = round((0..options.ranks).map(greeting).collect())?;
    for (from, words) in (0..options.ranks).zip(greetings).filter(|&(from, _)| from != rank) {
        let bytes = BASE64.decode(words.as_bytes()).ok().and_then(|bytes| <[u8; _]>::try_from(bytes).ok());
        let greeting = bytes.and_then(|bytes| Greeting::from_bytes(&bytes));
        let greeting = greeting.ok_or_else(|| named(&format_args!("rank {from} said {words:?}")))?;
        ring.connect(from, &greeting).map_err(|why| named(&why))?;
    }
    round(vec![String::new(); options.ranks as usize])?;
    Ok(ring)
}
