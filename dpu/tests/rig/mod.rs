//! An agent in this process.

use std::sync::mpsc;
use std::thread;

use umbra::config::Job;
use umbra::secret::Secret;
use umbra_core::peer::Sp;
use umbra_dpu::hosted::{self, Settings};

use crate::PATIENCE;

/// Starts the first agent of a job in a thread, which ends with this process.
pub(crate) fn start_agent(job: Job, secret: Secret, change: impl FnOnce(&mut Settings)) {
    let mut settings = Settings {
        sp: Sp(0),
        job,
        secret,
        sockets: None,
        here: Vec::new(),
        shadows: 1,
        deadline: PATIENCE,
        silence: None,
        device: None,
        stage: 0,
        members: 1,
        asked: false,
        supervised: false,
    };
    change(&mut settings);
    let (ready, is_ready) = mpsc::channel();
    thread::spawn(move || hosted::serve(&settings, || ready.send(()).unwrap()));
    is_ready.recv_timeout(PATIENCE).unwrap();
}
