//! Where an agent can be reached, and whom it dials.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

use umbra::driver;
use umbra::job::{Step, launcher_link};
use umbra::link::{Address, Listener, Party as LinkParty, Side, socket_path};
use umbra_core::log;
use umbra_core::peer::{Peer, Sp};
use umbra_core::time::{Lapse, Time};

use super::error::{ProcessError, cannot, cannot_bind};
use super::process::Process;

impl Process {
    /// Opens the doors: those of the configuration, or, under a launcher, the link to it.
    ///
    /// # Errors
    /// [`ProcessError`] if a door cannot be opened.
    pub(super) fn open(&mut self) -> Result<(), ProcessError> {
        if self.settings.supervised {
            let link = launcher_link().map_err(cannot("use the link to the launcher"))?;
            // The launcher answers when it has started all others; if it gives up, this process ends with it.
            let link = self.driver.adopt_until(Time::NEVER, link, true, Side::Initiator);
            let link = link.map_err(|why| cannot("use the link to the launcher")(io::Error::other(why)))?;
            self.supervisor = Some(link);
            return Ok(());
        }
        if let Some(address) = self.settings.job.address(self.settings.sp) {
            for address in [address.services, address.ranks] {
                let listener = TcpListener::bind(SocketAddr::V4(address)).map_err(cannot_bind(address))?;
                self.listen(Listener::Tcp(listener))?;
            }
        }
        if let Some(path) = self.settings.sockets.as_ref().map(|dir| socket_path(dir, self.settings.sp)) {
            // One that a dead agent left behind; a living one still holds its ports, so we would not be here.
            let _ = std::fs::remove_file(&path);
            let listener =
                UnixListener::bind(&path).map_err(|error| ProcessError::Socket { path: path.clone(), error })?;
            self.socket = Some(path);
            self.listen(Listener::Unix(listener))?;
        }
        self.opened();
        Ok(())
    }

    pub(super) fn listen(&mut self, listener: Listener) -> Result<(), ProcessError> {
        self.driver.listen(listener).map_err(cannot("listen"))
    }

    /// The doors are open: dial the service processes that this one dials.
    pub(super) fn opened(&mut self) {
        log!(info, "service process {} listens", self.settings.sp);
        self.mark(Step::Listening, None, 0);
        for sp in (self.settings.sp.0 + 1..self.settings.job.service_processes()).map(Sp) {
            self.dial(sp, Lapse(0));
        }
    }

    /// Dials a service process, not before `pause` has passed.
    pub(super) fn dial(&mut self, sp: Sp, pause: Lapse) {
        let Some(peer) = Peer::service(sp) else { return };
        let near = !self.settings.asked && self.settings.is_here(sp);
        let unix = self.settings.sockets.as_ref().filter(|_| near).map(|dir| socket_path(dir, sp));
        let address = match (unix, self.settings.job.address(sp)) {
            (Some(path), _) => Address::Unix(path),
            (None, Some(address)) => Address::Tcp(SocketAddr::V4(address.services)),
            (None, None) => return,
        };
        // Whoever gives up on a silent peer is the bootstrap, not the dial: it begins again for ever.
        let now = driver::now();
        let deadline = now + Lapse::from_secs(60);
        if let Ok(link) = self.driver.dial_at(now + pause, address, LinkParty::Peer(peer), deadline) {
            self.dialled.insert(sp, link);
        }
    }
}
