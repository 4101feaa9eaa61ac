//! A real card, by libmlx5.

use std::io;

use super::card::Commands;
use crate::verbs::{Devx, DevxObject};

impl Commands for Devx {
    type Object = DevxObject;

    fn run(&mut self, command: &[u8], answer: &mut [u8]) -> io::Result<()> {
        Devx::run(self, command, answer)
    }

    fn create(&mut self, command: &[u8], answer: &mut [u8]) -> io::Result<DevxObject> {
        Devx::create(self, command, answer)
    }

    fn destroy(&mut self, object: DevxObject) -> io::Result<()> {
        object.destroy()
    }
}
