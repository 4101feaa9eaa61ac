//! What processes in which members live tell of themselves, gathered by one call.
//!
//! A call of [`TELL`] goes down a tree and names a subject by its number, and everybody answers with some bytes. The
//! function of a member does not know them: whoever has the rest of the process does, in another thread. So questions
//! lie on a [`Desk`] until that thread answers them, and the function is pending meanwhile, which keeps nobody from
//! being served. If the thread hangs, the call fails at its deadline by the name of that member.
//!
//! Everybody may answer with as many bytes as its share of the reply; a longer text is cut at the end of a line, and
//! says so.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use umbra_core::chain::{Call, CallId, Caps, Node, Phase, RegisterError, Tag, Verdict, Work};

use super::built_in::entries;
use super::{Capacities, Member};

/// Tells about a subject.
pub const TELL: &str = "umbra.tell";

/// Questions that lie on a desk at once, one for each call that a member can have open: beyond them the oldest is forgotten.
/// Whose question that was asks again, and pushes out one of a call that is over.
const QUESTIONS: usize = Capacities::new(0).calls as usize;
/// Bytes beside an answer in the reply: member, length, and whether it was cut.
const BESIDE: u32 = 9;
/// The number of the fault of a member that knows nothing of a subject, and of a request that is none.
const UNKNOWN: u32 = 1;

/// The header of [`TELL`]: the subject, and how long one answer may be so that those of all `members` fit into `room` bytes.
#[must_use]
pub fn question(subject: u16, members: usize, room: u32) -> [u8; 6] {
    let most = (room / u32::try_from(members).unwrap_or(u32::MAX).max(1)).saturating_sub(BESIDE);
    let ([a, b], [c, d, e, f]) = (subject.to_le_bytes(), most.to_le_bytes());
    [a, b, c, d, e, f]
}

/// Bytes of the reply that an answer of so many bytes takes: where one has less of them it is cut.
#[must_use]
pub const fn needed(answer: usize) -> usize {
    answer + BESIDE as usize
}

/// A call of [`TELL`], whose reply has at most so many bytes.
#[must_use]
pub const fn tell<'a>(members: &'a [Node], question: &'a [u8; 6], room: u32) -> Call<'a> {
    let caps = Caps { header: 0, data: room };
    Call { callback: Tag::of(TELL), header: question, caps, ..Call::new(Tag::of(TELL), members) }
}

/// What one member told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told<'a> {
    /// Who.
    pub node: Node,
    /// What.
    pub bytes: &'a [u8],
    /// There is more, for which there was no room.
    pub is_cut: bool,
}

/// What all members told, from the reply to [`TELL`], in no particular order.
pub fn told(reply: &[u8]) -> impl Iterator<Item = Told<'_>> {
    entries(reply).filter_map(|(node, value)| {
        let (&cut, bytes) = value.split_first()?;
        Some(Told { node, bytes, is_cut: cut != 0 })
    })
}

/// Gathers what others tell: the function of whoever only makes the call.
pub fn collect(work: &mut Work<'_>) -> Verdict {
    match work.phase {
        Phase::Wait(answer) => {
            // A reply that is too large fails the call by that name.
            let _ = work.reply.push_data(answer.data);
            Verdict::Done
        }
        Phase::Init | Phase::Probe => Verdict::Fault(UNKNOWN),
    }
}

#[derive(Debug)]
struct Question {
    call: CallId,
    node: Node,
    subject: u16,
    /// `None` in it: nothing is known of the subject.
    answer: Option<Option<Vec<u8>>>,
}

/// Where questions lie until they are answered; copies are the same desk.
#[derive(Clone)]
pub struct Desk {
    questions: Arc<Mutex<VecDeque<Question>>>,
    ring: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("questions", &self.questions).finish_non_exhaustive()
    }
}

impl Desk {
    /// An empty desk; `ring` tells the one who answers that there is something to [`answer`](Self::answer).
    pub fn new(ring: impl Fn() + Send + Sync + 'static) -> Desk {
        Desk { questions: Arc::new(Mutex::new(VecDeque::with_capacity(QUESTIONS))), ring: Arc::new(ring) }
    }

    fn questions(&self) -> MutexGuard<'_, VecDeque<Question>> {
        // Whoever panicked beside them has left no question half written.
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no question waits for an answer.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.questions().iter().all(|question| question.answer.is_some())
    }

    /// Answers all questions that wait, each by its subject, with `None` where nothing is known of that; whether there was any.
    pub fn answer(&self, mut of: impl FnMut(u16) -> Option<Vec<u8>>) -> bool {
        let mut any = false;
        loop {
            // Answers take their time; meanwhile others may ask.
            let open =
                self.questions().iter().find(|question| question.answer.is_none()).map(|question| question.subject);
            let Some(subject) = open else { return any };
            let answer = of(subject);
            any = true;
            for question in self.questions().iter_mut().filter(|question| question.subject == subject) {
                question.answer.get_or_insert_with(|| answer.clone());
            }
        }
    }

    fn tell(&self, work: &mut Work<'_>) -> Verdict {
        if let Phase::Wait(_) = work.phase {
            return collect(work);
        }
        let &[a, b, c, d, e, f] = work.header else { return Verdict::Fault(UNKNOWN) };
        let (subject, most) = (u16::from_le_bytes([a, b]), u32::from_le_bytes([c, d, e, f]) as usize);
        let is_meant = |question: &Question| question.call == work.call && question.node == work.node;
        let mut questions = self.questions();
        let Some(at) = questions.iter().position(is_meant) else {
            if questions.len() >= QUESTIONS {
                questions.pop_front();
            }
            questions.push_back(Question { call: work.call, node: work.node, subject, answer: None });
            drop(questions);
            (self.ring)();
            return Verdict::Pending;
        };
        if questions.get(at).is_some_and(|question| question.answer.is_none()) {
            return Verdict::Pending;
        }
        let answer = questions.remove(at).and_then(|question| question.answer.flatten());
        drop(questions);
        let Some(answer) = answer else { return Verdict::Fault(UNKNOWN) };
        let kept = fitting(&answer, most);
        let [a, b, c, d] = work.node.0.to_le_bytes();
        let [e, f, g, h] = (kept.len() as u32 + 1).to_le_bytes();
        let head = [a, b, c, d, e, f, g, h, u8::from(kept.len() < answer.len())];
        // A reply that is too large fails the call by that name.
        let _ = work.reply.push_data(&head).and_then(|()| work.reply.push_data(kept));
        Verdict::Done
    }
}

/// As many whole lines of a text as fit.
fn fitting(text: &[u8], most: usize) -> &[u8] {
    if text.len() <= most {
        return text;
    }
    let fits = text.get(..most).unwrap_or_default();
    let end = fits.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    fits.get(..end).unwrap_or_default()
}

impl Member {
    /// Answers [`TELL`] by what is put on this desk, for every member that lives here.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn serve_tell(&mut self, desk: Desk) -> Result<(), RegisterError> {
        self.register(TELL, move |work| desk.tell(work)).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::call::{Shape, Station, WaitError};

    #[test]
    fn texts_are_cut_between_lines() {
        assert_eq!(fitting(b"one\ntwo\n", 8), b"one\ntwo\n");
        assert_eq!(fitting(b"one\ntwo\n", 7), b"one\n");
        assert_eq!(fitting(b"one\n", 3), b"");
    }

    #[test]
    fn reply_cut_short_ends_the_list() {
        let whole = [&[7, 0, 0, 0, 3, 0, 0, 0, 1][..], b"ab"].concat();
        assert_eq!(told(&whole).collect::<Vec<_>>(), [Told { node: Node(7), bytes: b"ab", is_cut: true }]);
        assert_eq!(told(&whole[..10]).count(), 0);
        assert_eq!(told(&[7, 0, 0, 0, 0, 0, 0, 0]).count(), 0, "without a word whether it was cut");
    }

    /// A maker, and a thread that serves another member, whose questions are answered by nobody but the test.
    fn with_desk(test: impl FnOnce(&mut Member, &Desk, &mpsc::Receiver<()>)) {
        let station = Station::create("tell", Shape::new(2)).unwrap();
        let mut maker = Member::join(&station, Node(0)).unwrap();
        maker.register(TELL, collect).unwrap();
        let mut other = Member::join(&station, Node(1)).unwrap();
        let (rings, rang) = mpsc::channel();
        let desk = Desk::new(move || _ = rings.send(()));
        other.serve_tell(desk.clone()).unwrap();
        let (ends, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let over = |_: &mut Member| ended.try_recv() == Err(mpsc::TryRecvError::Disconnected);
                other.serve_until(Duration::from_secs(60), over);
            });
            test(&mut maker, &desk, &rang);
            drop(ends);
        });
    }

    #[test]
    fn questions_wait_for_the_thread_that_knows() {
        with_desk(|maker, desk, rang| {
            let members = [Node(1)];
            for (room, expected, is_cut) in [(64, &b"42\nmore\n"[..], false), (9 + 4, b"42\n", true)] {
                let question = question(42, 1, room);
                let handle = maker.start(&Call { at_root: false, ..tell(&members, &question, room) }).unwrap();
                while rang.try_recv().is_err() {
                    assert!(!maker.test(handle).unwrap(), "nobody has answered");
                }
                assert!(!desk.is_idle());
                assert!(desk.answer(|subject| Some(format!("{subject}\nmore\n").into_bytes())));
                assert!(desk.is_idle() && !desk.answer(|_| None), "there was one question");
                let reply = maker.wait(handle, Duration::from_secs(60)).unwrap();
                let all: Vec<_> = told(&reply.data).collect();
                assert_eq!(all, [Told { node: Node(1), bytes: expected, is_cut }]);
            }
        });
    }

    #[test]
    fn unknown_subjects_and_other_headers_fail_by_name() {
        with_desk(|maker, desk, rang| {
            let members = [Node(1)];
            let failed = |maker: &mut Member, handle| match maker.wait(handle, Duration::from_secs(60)) {
                Err(WaitError::Failed(failure)) => (failure.records[0].origin, failure.records[0].aux),
                other => panic!("{other:?}"),
            };
            let question = question(42, 1, 64);
            let call = Call { at_root: false, ..tell(&members, &question, 64) };
            let handle = maker.start(&call).unwrap();
            while rang.try_recv().is_err() {
                maker.turn();
            }
            assert!(desk.answer(|_| None));
            assert_eq!(failed(maker, handle), (Node(1), UNKNOWN));
            let handle = maker.start(&Call { header: b"x", ..call }).unwrap();
            assert_eq!(failed(maker, handle), (Node(1), UNKNOWN));
            assert!(desk.is_idle());
        });
    }

    #[test]
    fn many_questions_at_once_are_all_answered() {
        with_desk(|maker, desk, _| {
            let members = [Node(1)];
            let question = question(42, 1, 64);
            let call = Call { at_root: false, ..tell(&members, &question, 64) };
            let handles: Vec<_> = (0..24).map(|_| maker.start(&call).unwrap()).collect();
            while desk.questions().len() < handles.len() {
                maker.turn();
            }
            assert!(desk.answer(|_| Some(vec![1])));
            for handle in handles {
                let reply = maker.wait(handle, Duration::from_secs(60)).unwrap();
                assert_eq!(told(&reply.data).count(), 1);
            }
        });
    }

    #[test]
    fn questions_of_calls_that_are_over_are_forgotten() {
        with_desk(|maker, desk, rang| {
            let members = [Node(1)];
            let question = question(42, 1, 64);
            for _ in 0..QUESTIONS + 3 {
                let handle = maker.start(&Call { at_root: false, ..tell(&members, &question, 64) }).unwrap();
                while rang.try_recv().is_err() {
                    maker.turn();
                }
                maker.cancel(handle).unwrap();
                assert!(maker.wait(handle, Duration::from_secs(60)).is_err());
            }
            assert_eq!(desk.questions().len(), QUESTIONS);
        });
    }
}
