//! What a rank is told on its command line, by whoever starts it.

use std::os::unix::ffi::OsStringExt as _;

use super::*;
use crate::config::Platform;
use crate::job::JobDirectory;
use crate::sim::Random;
use crate::sys::heap;

/// Values that say too much, too little, or nothing that can be read.
const HOSTILE: [&[u8]; 14] = [
    b"",
    b"=",
    b"0",
    b"-1",
    b"+7",
    b" 7",
    b"4294967295",
    b"4294967296",
    b"18446744073709551615",
    b"99999999999999999999",
    b"1,2",
    b"1,1,1,1",
    b"\xff\xfe",
    b"heap",
];

/// What was said last of a key.
fn last<'w>(words: &'w [Vec<u8>], key: &str) -> Option<&'w [u8]> {
    words.iter().rev().find_map(|word| word.strip_prefix(key.as_bytes())?.strip_prefix(b"="))
}

fn number(words: &[Vec<u8>], key: &str) -> Option<u64> {
    str::from_utf8(last(words, key)?).ok()?.parse().ok()
}

#[test]
fn what_is_said_of_a_rank_is_taken_as_it_was_said_or_refused_in_words() {
    let directory = JobDirectory::create().unwrap();
    let platform = Platform::parse("# Format version: 1\nnode1,bf1:10.0.0.1:7010&7011:9010&9011\n", "job.cfg").unwrap();
    directory.fill(&platform, &Secret::random().unwrap()).unwrap();
    let path = |key: &str, path: PathBuf| [format!("{key}=").into_bytes(), path.into_os_string().into_vec()].concat();
    let mut usual: Vec<Vec<u8>> = vec![path("config", directory.config()), path("secret", directory.secret())];
    usual.extend(
        "dpus=bf1 rank=1 host=0 local=1 n_local=2 size=2 shadows=1 deadline_ms=900 silence_ms=50 offset=4096 len=10 \
         input=/in sockets=/s memory=heap rdma=asked device=mlx5_0:1 holder=1 holders=2 bricks=4,4,1"
            .split_whitespace()
            .map(|word| word.as_bytes().to_vec()),
    );
    let mut random = Random::new(11);
    let mut taken = 0;
    for _ in 0..5_000 {
        let mut words = usual.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(words.len() as u64) as usize;
            let word = words[at].clone();
            let key = word.iter().position(|&byte| byte == b'=').map_or(0, |at| at + 1);
            match random.below(5) {
                0 => drop(words.remove(at)),
                1 => words[at].truncate(random.below(word.len() as u64 + 1) as usize),
                2 => words[at][random.below(word.len() as u64) as usize] = random.bits() as u8,
                3 => words.push([&word[..key], HOSTILE[random.below(14) as usize]].concat()),
                _ => words[at] = [&word[..key], HOSTILE[random.below(14) as usize]].concat(),
            }
            words.retain(|word| !word.is_empty());
        }
        let said: Vec<String> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
        let said = said.join(" ");
        let Arguments { settings, .. } = match Arguments::parse(words.iter().cloned().map(OsString::from_vec)) {
            Ok(arguments) => arguments,
            Err(error) => {
                assert!(!error.to_string().is_empty(), "{said}");
                continue;
            }
        };
        taken += 1;
        let Seat { rank, size, host, local, n_local } = settings.seat;
        let taken = [rank.0, size, host.0, local.0, n_local, settings.shadows].map(|number| Some(u64::from(number)));
        assert_eq!(
            taken,
            ["rank", "size", "host", "local", "n_local", "shadows"].map(|key| number(&words, key)),
            "{said}"
        );
        assert!(n_local > 0, "a host with a rank has ranks: {said}");
        let deadline = settings.deadline.as_millis() as u64;
        assert_eq!(Some(deadline), number(&words, "deadline_ms"), "{said}");
        let sockets = settings.sockets.as_ref().map(|path| path.as_os_str().as_bytes());
        assert_eq!(sockets, last(&words, "sockets"), "{said}");
    }
    assert!((100..4_900).contains(&taken), "{taken} were taken");
}

#[test]
fn a_part_for_which_there_is_no_memory_is_refused_before_it_is_loaded() {
    let all = heap::total().unwrap() as usize;
    for memory in ["heap", "segment"] {
        for len in [all, 1 << 60, isize::MAX as usize, usize::MAX] {
            let said = [("memory", memory.to_owned()), ("input", "/in".to_owned()), ("offset", "0".to_owned())];
            let said = said.into_iter().chain([("len", len.to_string())]);
            let pairs = Pairs(said.map(|(key, value)| (key.to_owned(), value.into())).collect());
            let refused = Holding::parse(&pairs).unwrap().loaded(len, len, |_| Err(RankError::Missing("loaded")));
            let Err(error @ RankError::NoMemory { .. }) = refused else {
                panic!("{memory}, {len}: {:?}", refused.err())
            };
            assert!(error.to_string().contains(&format!("no memory for {len} bytes")), "{error}");
            assert!(error.to_string().contains("/in: share it out among more ranks"), "{error}");
        }
    }
}
