//! Where links are accepted, until the process that does so has ended.

use super::Driver;
use crate::link::Listener;
use crate::sys::fork;

impl Driver {
    /// Accepts links from now on, until this is dropped: then nobody is let in there any more, whoever else holds the socket.
    ///
    /// # Errors
    /// What the system said.
    pub fn listen(&mut self, listener: Listener) -> std::io::Result<()> {
        listener.set_nonblocking()?;
        fork::watch();
        self.life = Some(fork::life());
        self.listeners.push(listener);
        Ok(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A child that was forked off may hold them on: who came there would wait for nobody. What a child drops is its
        // parent's, and stays.
        if self.life == Some(fork::life()) {
            self.listeners.iter().for_each(fork::shut_for_all);
        }
    }
}
