//! Calls whose arguments and replies have types.
//!
//! A [`Procedure`] is a name with the type of what a function takes and of what it replies; whoever serves it and whoever
//! calls it name the same constant, so that the compiler sees that they agree. What goes over the network is
//! [postcard](https://postcard.jamesmunns.com), whose format is written down; argument and reply are the data of the call.
//!
//! ```
//! use std::time::Duration;
//! use umbra::call::{Member, Procedure, Shape, Station};
//! use umbra_core::chain::Node;
//!
//! /// Takes words to look for; the reply is how many lines have one of them, and the longest.
//! const SEARCH: Procedure<Vec<String>, (u64, String)> = Procedure::new("search").reply_bytes(100);
//!
//! fn serve(member: &mut Member) -> Result<(), Box<dyn std::error::Error>> {
//!     let found = |here: umbra::call::Here, words: Vec<String>| {
//!         let line = format!("line {} of the text", here.node);
//!         let count = words.iter().filter(|&word| line.contains(word)).count() as u64;
//!         Ok((count, line))
//!     };
//!     let both = |_, (ours, a): (u64, String), (theirs, b): (u64, String)| Ok((ours + theirs, a.max(b)));
//!     member.register_typed(SEARCH, found, both)?;
//!     Ok(())
//! }
//!
//! let station = Station::create("example", Shape::new(2))?;
//! let mut first = Member::join(&station, Node(0))?;
//! let mut second = Member::join(&station, Node(1))?;
//! serve(&mut first)?;
//! serve(&mut second)?;
//! let request = SEARCH.request(&vec!["text".into()])?;
//! let handle = first.start(&request.call(&[Node(0), Node(1)]))?;
//! while !first.test(handle)? {
//!     second.turn();
//! }
//! let (count, longest) = SEARCH.reply(&first.wait(handle, Duration::ZERO)?)?;
//! assert_eq!((count, longest.as_str()), (2, "line 1 of the text"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Bytes from another process are not believed. An argument that is none of its type, or is followed by more bytes, fails the
//! call at the member that could not read it, at the stage `func`; an answer of a child fails it at the stage `callback`
//! at the one who was to combine it, by the number of the child. The code is [`Code::Undecodable`](umbra_core::chain::Code). A reply that
//! is longer than the caller allows fails as it does for functions without types.
//!
//! *Cost*: what the types themselves allocate, and one copy of the argument for whoever calls. Replies are written where they lie.

use std::fmt;
use std::marker::PhantomData;

use postcard::ser_flavors::Size;
use serde::Serialize;
use serde::de::DeserializeOwned;
use umbra_core::chain::{Call, CallId, Caps, Data, Node, Phase, RegisterError, Tag, Verdict, Work};

use super::answer::Reply;
use super::member::Member;

/// A function that members may call, with the types of its argument `A` and of its reply `R`; see the [module](self).
pub struct Procedure<A, R> {
    name: &'static str,
    reply_bytes: u32,
    types: PhantomData<fn(A) -> R>,
}

impl<A, R> Clone for Procedure<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, R> Copy for Procedure<A, R> {}

impl<A, R> fmt::Debug for Procedure<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Procedure").field("name", &self.name).field("reply_bytes", &self.reply_bytes).finish()
    }
}

/// Where a typed function runs, and for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Here {
    /// The member that runs it.
    pub node: Node,
    /// Which call.
    pub call: CallId,
    /// Who sent the request; `None` at the one who made the call.
    pub parent: Option<Node>,
}

impl Here {
    const fn of(work: &Work<'_>) -> Here {
        Here { node: work.node, call: work.call, parent: work.parent }
    }
}

/// A typed function has failed, with a number of its own; the caller finds it beside [`Code::Fault`](umbra_core::chain::Code).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault(pub u32);

/// Why an argument is not sent, or a reply not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypedError {
    /// The argument has no form as bytes.
    #[error("the argument of {name} cannot be written: {error}; types of lengths that are not known are none")]
    Argument {
        /// Of the procedure.
        name: &'static str,
        /// What its type says.
        error: postcard::Error,
    },
    /// The reply is none of the type that the caller expects.
    #[error("the reply of {name} is not of its type ({bytes} bytes): do all members have the same version of it?")]
    Reply {
        /// Of the procedure.
        name: &'static str,
        /// Bytes of the reply.
        bytes: usize,
    },
}

/// An argument as it is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    tag: Tag,
    reply_bytes: u32,
    argument: Vec<u8>,
}

impl Request {
    /// The call over these members, combined by the function's own callback; its tree, time and mode can be changed.
    #[must_use]
    pub fn call<'a>(&'a self, members: &'a [Node]) -> Call<'a> {
        let caps = Caps { header: 0, data: self.reply_bytes };
        Call { callback: self.tag, caps, data: Data::Bytes(&self.argument), ..Call::new(self.tag, members) }
    }
}

impl<A, R> Procedure<A, R> {
    /// The procedure of this name, whose replies have at most 256 bytes.
    #[must_use]
    pub const fn new(name: &'static str) -> Procedure<A, R> {
        Procedure { name, reply_bytes: 256, types: PhantomData }
    }

    /// The same with replies of at most so many bytes, combined ones included; every member keeps memory for them.
    #[must_use]
    pub const fn reply_bytes(self, reply_bytes: u32) -> Procedure<A, R> {
        Procedure { reply_bytes, ..self }
    }

    /// By what it is found.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The tag of its name.
    #[must_use]
    pub const fn tag(&self) -> Tag {
        Tag::of(self.name)
    }
}

impl<A: Serialize, R> Procedure<A, R> {
    /// An argument to be sent.
    ///
    /// # Errors
    /// [`TypedError::Argument`].
    pub fn request(&self, argument: &A) -> Result<Request, TypedError> {
        let Procedure { name, reply_bytes, .. } = *self;
        let written = len_of(argument).and_then(|len| {
            let mut bytes = vec![0; len];
            let len = postcard::to_slice(argument, &mut bytes)?.len();
            bytes.truncate(len);
            Ok(bytes)
        });
        let argument = written.map_err(|error| TypedError::Argument { name, error })?;
        Ok(Request { tag: self.tag(), reply_bytes, argument })
    }
}

impl<A: DeserializeOwned, R> Procedure<A, R> {
    /// The argument of a request, for functions that read it themselves.
    ///
    /// # Errors
    /// The [`Verdict`] to be returned: it is not of its type, or lies elsewhere.
    pub fn argument(&self, work: &Work<'_>) -> Result<A, Verdict> {
        let bytes = match work.data {
            Data::Bytes(bytes) => bytes,
            Data::Span(span) => return Err(Verdict::Undecodable(u32::try_from(span.len).unwrap_or(u32::MAX))),
        };
        whole(bytes).ok_or(Verdict::Undecodable(u32::try_from(bytes.len()).unwrap_or(u32::MAX)))
    }
}

impl<A, R: Serialize> Procedure<A, R> {
    /// Writes the reply of this member, for functions that do so themselves; the verdict to be returned.
    pub fn answer(&self, work: &mut Work<'_>, reply: &R) -> Verdict {
        let (_, memory) = work.reply.memory();
        let len = match postcard::to_slice(reply, memory) {
            Ok(written) => Ok(written.len()),
            // How much there would be, so that the failure says it.
            Err(postcard::Error::SerializeBufferFull) => len_of(reply),
            Err(error) => Err(error),
        };
        let header = work.reply.header().len();
        match len {
            // One that does not fit fails the call by itself.
            Ok(len) => work.reply.set_lens(header, len).map_or(Verdict::Done, |()| Verdict::Done),
            // A type that cannot be written at all is a mistake in the program.
            Err(_) => Verdict::Panic,
        }
    }
}

impl<A, R: DeserializeOwned> Procedure<A, R> {
    /// The combined reply of all members.
    ///
    /// # Errors
    /// [`TypedError::Reply`].
    pub fn reply(&self, reply: &Reply) -> Result<R, TypedError> {
        whole(&reply.data).ok_or(TypedError::Reply { name: self.name, bytes: reply.data.len() })
    }
}

/// Bytes of a value.
fn len_of<T: Serialize>(value: &T) -> postcard::Result<usize> {
    postcard::serialize_with_flavor::<T, Size, usize>(value, Size::default())
}

/// The value that these bytes are, all of them.
fn whole<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    postcard::take_from_bytes(bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

impl Member {
    /// Makes a typed function callable. It is run for each member that the call lists; `combine` makes one reply of that of a
    /// member, with those below it that came before, and that of a child.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn register_typed<A, R>(
        &mut self,
        procedure: Procedure<A, R>,
        mut function: impl FnMut(Here, A) -> Result<R, Fault> + Send + 'static,
        mut combine: impl FnMut(Here, R, R) -> Result<R, Fault> + Send + 'static,
    ) -> Result<Tag, RegisterError>
    where
        A: DeserializeOwned + 'static,
        R: Serialize + DeserializeOwned + 'static,
    {
        self.register(procedure.name, move |work| {
            let here = Here::of(work);
            let made = match work.phase {
                Phase::Init | Phase::Probe => procedure.argument(work).map(|argument| function(here, argument)),
                Phase::Wait(answer) => {
                    let both = || {
                        let theirs: R = whole(answer.data).ok_or(Verdict::Undecodable(answer.from.0))?;
                        // A maker that takes no part itself has no reply before the first answer.
                        if work.reply.data().is_empty() && !answer.data.is_empty() {
                            return Ok((None, theirs));
                        }
                        let ours = whole(work.reply.data()).ok_or(Verdict::Undecodable(here.node.0))?;
                        Ok((Some(ours), theirs))
                    };
                    both().map(|(ours, theirs)| match ours {
                        Some(ours) => combine(here, ours, theirs),
                        None => Ok(theirs),
                    })
                }
            };
            match made {
                Ok(Ok(reply)) => procedure.answer(work, &reply),
                Ok(Err(Fault(number))) => Verdict::Fault(number),
                Err(verdict) => verdict,
            }
        })
    }
}
