//! The two ends of every queue under one interface.

use crossbeam_queue::ArrayQueue;
use umbra_core::cell::BytesMut;
use umbra_core::ring::line::{self, Line};
use umbra_core::ring::mailbox::{self, Mailbox};
use umbra_core::ring::{Place, mpmc, spsc};
use umbra_core::shared_slots::Owner;

/// Items that fit into every queue (one less into heapless).
pub(crate) const CAPACITY: usize = 1024;

/// An item that carries a number, which the receiver checks.
pub(crate) trait Item: Copy + Default + Send + Sync + 'static {
    const BYTES: usize;
    fn of(n: u64) -> Self;
    fn number(&self) -> u64;
}
impl Item for u64 {
    const BYTES: usize = 8;
    fn of(n: u64) -> Self {
        n
    }
    fn number(&self) -> u64 {
        *self
    }
}
impl Item for [u64; 8] {
    const BYTES: usize = 64;
    fn of(n: u64) -> Self {
        // Byte 5 of the first word stays zero, as a line wants it.
        [n & 0xff_ffff_ffff, n, n, n, n, n, n, n]
    }
    fn number(&self) -> u64 {
        self[1] ^ self[3] ^ self[7]
    }
}

impl Item for Line {
    const BYTES: usize = 64;
    fn of(n: u64) -> Self {
        Line::new(<[u64; 8]>::of(n)).unwrap_or_default()
    }
    fn number(&self) -> u64 {
        self.words().number()
    }
}

/// Moves up to `items.len()` items, and says how many.
pub(crate) trait Push<T>: Send {
    fn push(&mut self, items: &[T]) -> usize;
}
/// Moves up to `items.len()` items, and says how many.
pub(crate) trait Pop<T>: Send {
    fn pop(&mut self, items: &mut [T]) -> usize;
}

fn leak<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

/// Storage as a segment or firmware would lend it: aligned to lines.
#[repr(align(128))]
struct Aligned<T>([T; CAPACITY]);
impl<T> AsMut<[T]> for Aligned<T> {
    fn as_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// One item a call, by closures.
struct One<F>(F);
impl<T: Copy, F: FnMut(T) -> bool + Send> Push<T> for One<F> {
    #[inline(always)]
    fn push(&mut self, items: &[T]) -> usize {
        usize::from((self.0)(items[0]))
    }
}
struct OneOut<F>(F);
impl<T, F: FnMut() -> Option<T> + Send> Pop<T> for OneOut<F> {
    #[inline(always)]
    fn pop(&mut self, items: &mut [T]) -> usize {
        match (self.0)() {
            Some(item) => {
                items[0] = item;
                1
            }
            None => 0,
        }
    }
}

/// A slice a call, by closures.
struct All<F>(F);
impl<T, F: FnMut(&[T]) -> usize + Send> Push<T> for All<F> {
    #[inline(always)]
    fn push(&mut self, items: &[T]) -> usize {
        (self.0)(items)
    }
}
struct AllOut<F>(F);
impl<T, F: FnMut(&mut [T]) -> usize + Send> Pop<T> for AllOut<F> {
    #[inline(always)]
    fn pop(&mut self, items: &mut [T]) -> usize {
        (self.0)(items)
    }
}

pub(crate) fn spsc_one<T: Item>() -> (impl Push<T>, impl Pop<T>) {
    let places = Aligned([const { Place::<T>::new() }; CAPACITY]);
    let (mut sender, mut receiver) = leak(spsc::Ring::new(places).expect("a power of two")).split();
    (One(move |item| sender.push(item).is_ok()), OneOut(move || receiver.pop()))
}

pub(crate) fn spsc_all<T: Item>() -> (impl Push<T>, impl Pop<T>) {
    let places = Aligned([const { Place::<T>::new() }; CAPACITY]);
    let (mut sender, mut receiver) = leak(spsc::Ring::new(places).expect("a power of two")).split();
    (All(move |items: &[T]| sender.push_all(items)), AllOut(move |items: &mut [T]| receiver.pop_all(items)))
}

pub(crate) fn rtrb_one<T: Item>() -> (impl Push<T>, impl Pop<T>) {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<T>::new(CAPACITY);
    (One(move |item| producer.push(item).is_ok()), OneOut(move || consumer.pop().ok()))
}

pub(crate) fn rtrb_all<T: Item>() -> (impl Push<T>, impl Pop<T>) {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<T>::new(CAPACITY);
    (
        All(move |items: &[T]| producer.push_partial_slice(items).0.len()),
        AllOut(move |items: &mut [T]| consumer.pop_partial_slice(items).0.len()),
    )
}

pub(crate) fn heapless_one<T: Item>() -> (impl Push<T>, impl Pop<T>) {
    let (mut producer, mut consumer) = leak(heapless::spsc::Queue::<T, CAPACITY>::new()).split();
    (One(move |item| producer.enqueue(item).is_ok()), OneOut(move || consumer.dequeue()))
}

/// Both ends may be shared; what each thread of a crowd gets.
pub(crate) trait Crowd<T>: Push<T> + Pop<T> {}
impl<T, Q: Push<T> + Pop<T>> Crowd<T> for Q {}

#[derive(Clone, Copy)]
struct Mpmc<T: 'static>(mpmc::Sender<'static, T>, mpmc::Receiver<'static, T>);
impl<T: Item> Push<T> for Mpmc<T> {
    #[inline(always)]
    fn push(&mut self, items: &[T]) -> usize {
        usize::from(self.0.push(items[0]).is_ok())
    }
}
impl<T: Item> Pop<T> for Mpmc<T> {
    #[inline(always)]
    fn pop(&mut self, items: &mut [T]) -> usize {
        self.1.pop().map_or(0, |item| {
            items[0] = item;
            1
        })
    }
}

pub(crate) fn mpmc_one<T: Item>() -> impl Crowd<T> + Copy {
    let cells = Aligned([const { mpmc::Cell::<T>::new() }; CAPACITY]);
    let (sender, receiver) = leak(mpmc::Ring::new(cells).expect("a power of two")).split();
    Mpmc(sender, receiver)
}

#[derive(Clone, Copy)]
struct MpmcAll<T: 'static>(mpmc::Sender<'static, T>, mpmc::Receiver<'static, T>);
impl<T: Item> Push<T> for MpmcAll<T> {
    #[inline(always)]
    fn push(&mut self, items: &[T]) -> usize {
        self.0.push_all(items)
    }
}
impl<T: Item> Pop<T> for MpmcAll<T> {
    #[inline(always)]
    fn pop(&mut self, items: &mut [T]) -> usize {
        self.1.pop_all(items)
    }
}

pub(crate) fn mpmc_all<T: Item>() -> impl Crowd<T> + Copy {
    let cells = Aligned([const { mpmc::Cell::<T>::new() }; CAPACITY]);
    let (sender, receiver) = leak(mpmc::Ring::new(cells).expect("a power of two")).split();
    MpmcAll(sender, receiver)
}

#[derive(Clone, Copy)]
struct Crossbeam<T: 'static>(&'static ArrayQueue<T>);
impl<T: Item> Push<T> for Crossbeam<T> {
    #[inline(always)]
    fn push(&mut self, items: &[T]) -> usize {
        usize::from(self.0.push(items[0]).is_ok())
    }
}
impl<T: Item> Pop<T> for Crossbeam<T> {
    #[inline(always)]
    fn pop(&mut self, items: &mut [T]) -> usize {
        self.0.pop().map_or(0, |item| {
            items[0] = item;
            1
        })
    }
}

pub(crate) fn crossbeam_one<T: Item>() -> impl Crowd<T> + Copy {
    Crossbeam(leak(ArrayQueue::new(CAPACITY)))
}

/// A line ring and what its ends need, over memory as a segment would be.
pub(crate) fn line_all() -> (impl Push<Line>, impl Pop<Line>) {
    let count = line::words_for(CAPACITY).expect("a power of two");
    let words = BytesMut::from_words(leak(vec![0; count])).words(0, count).expect("aligned");
    let ring = line::Ring::create(words, CAPACITY).expect("large enough");
    let mut sender = ring.sender().expect("new");
    let mut receiver = ring.receiver().expect("new");
    (
        All(move |lines: &[Line]| match lines {
            [line] => usize::from(sender.push(*line).is_ok()),
            _ => sender.push_all(lines).unwrap_or(0),
        }),
        AllOut(move |lines: &mut [Line]| match lines {
            [line] => receiver.pop().map_or(0, |item| {
                *line = item;
                1
            }),
            _ => receiver.pop_all(lines),
        }),
    )
}

#[derive(Clone, Copy)]
struct Mail(Mailbox<'static>, Owner);
impl Push<Line> for Mail {
    #[inline(always)]
    fn push(&mut self, items: &[Line]) -> usize {
        usize::from(self.0.push(self.1, items[0]).is_ok())
    }
}
impl Pop<Line> for Mail {
    #[inline(always)]
    fn pop(&mut self, items: &mut [Line]) -> usize {
        self.0.pop(self.1).ok().flatten().map_or(0, |line| {
            items[0] = line;
            1
        })
    }
}

pub(crate) fn mailbox_one() -> [impl Crowd<Line>; 2] {
    let count = mailbox::words_for(CAPACITY).expect("a power of two");
    let words = BytesMut::from_words(leak(vec![0; count])).words(0, count).expect("aligned");
    let mailbox = Mailbox::create(words, CAPACITY).expect("large enough");
    [0, 1].map(|number| Mail(mailbox, Owner::new(number).expect("below 30")))
}
