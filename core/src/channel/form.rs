//! Where the parts of channels of one shape lie, worked out once.
//!
//! It is for whoever looks at many of them, or again and again.

use super::error::{AttachError, ShapeError};
use super::layout::{Plan, Shape};
use super::message::Messages;
use super::queue::Queue;
use crate::cell::BytesMut;

/// A [`Shape`] that there can be, and what follows from it.
///
/// ```
/// use umbra_core::cell::BytesMut;
/// use umbra_core::channel::{Form, Header, Messages, Shape};
/// let shape = Shape { capacity: 2, spares: 1, block: 64 };
/// let form = Form::of(shape)?;
/// let mut memory = vec![0_u64; form.words()];
/// Messages::create(BytesMut::from_words(&mut memory), shape)?.send(1, Header::default(), b"hello")?;
/// let messages = Messages::attach_in(BytesMut::from_words(&mut memory), &form)?;
/// assert_eq!(messages.receive(2, &mut [0; 64])?.len, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Form(Plan);

impl Form {
    /// That of a shape.
    ///
    /// # Errors
    /// [`ShapeError`].
    pub const fn of(shape: Shape) -> Result<Form, ShapeError> {
        match shape.plan() {
            Ok(plan) => Ok(Form(plan)),
            Err(error) => Err(error),
        }
    }

    /// Bytes that fit into a message.
    #[must_use]
    pub const fn block(&self) -> usize {
        self.0.block
    }

    /// Words of memory that a channel needs.
    #[must_use]
    pub const fn words(&self) -> usize {
        self.0.words
    }
}

impl<'a> Messages<'a> {
    /// What [`attach_in`](Self::attach_in) needs for the next look at this channel.
    #[must_use]
    pub const fn form(&self) -> Form {
        Form(self.queue().plan)
    }

    /// As [`attach`](Self::attach), for whoever knows in which form the channel was made: it is looked at whether it is one, and
    /// what it says of its shape is neither read nor believed.
    ///
    /// # Errors
    /// [`AttachError::NotChannel`], [`AttachError::TooSmall`].
    #[inline]
    pub fn attach_in(memory: BytesMut<'a>, form: &Form) -> Result<Self, AttachError> {
        Self::over(memory, |words| Queue::attach_as(words, form.0))
    }
}
