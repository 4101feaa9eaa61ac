//! Over whom a call goes, and the tree that hangs below whoever makes it.
//!
//! Where the dead are left out, the tree is one over those who live, so that its root alone hangs below the maker whoever is dead.

use std::time::Duration;

use umbra::call::Member;
use umbra_core::chain::Node;

use super::super::Failure;
use super::Call;
use super::spec::Shape;

/// The members of a call as it is made.
pub(super) struct Listed {
    /// All of them, the dead behind the others.
    pub(super) all: Vec<Node>,
    /// Those who are not left out.
    pub(super) living: Vec<Node>,
    /// The parents of all positions. The dead hang below the maker, and nobody below them.
    pub(super) parents: Vec<u32>,
}

impl Call {
    /// Waits until members on other hosts are there: the first who asks for calls has their agents make places for them. Nobody
    /// waits for the dead if they are left out.
    pub(super) fn meet_all(&self, own: &mut Member, members: &[Node]) -> Result<(), Failure> {
        let missing = |own: &mut Member| {
            let (_, wanted) = self.apart(own, members);
            own.sees(&wanted)
        };
        own.serve_until(Duration::from_nanos(self.reach.patience().0), |own| missing(own).is_none());
        match missing(own) {
            None => Ok(()),
            Some(missing) => {
                let sp = own.station().shape().place(missing);
                Err(Failure::failed(format!(
                    "the members at service process {sp} are not there: is its agent, with as many --members?"
                )))
            }
        }
    }

    /// Who is called, and over which tree.
    pub(super) fn listed(&self, own: &mut Member, members: &[Node]) -> Result<Listed, Failure> {
        // Whoever has just joined knows of nobody until it looks.
        let _ = own.sees(&[]);
        let (dead, living) = self.apart(own, members);
        let mut parents = self.parents(own, &living)?;
        parents.resize(1 + members.len(), 0);
        let all = [living.as_slice(), &dead].concat();
        Ok(Listed { all, living, parents })
    }

    /// The members that are left out as they are dead, and the others.
    fn apart(&self, own: &Member, members: &[Node]) -> (Vec<Node>, Vec<Node>) {
        members.iter().partition(|&&node| self.skip_dead && own.is_dead(node))
    }

    /// The tree over these members, below whoever makes the call.
    pub(super) fn parents(&self, own: &Member, members: &[Node]) -> Result<Vec<u32>, Failure> {
        self.suited(own, members).parents(own.station(), members).map_err(Failure::usage)
    }

    /// The shape of that tree.
    pub(super) fn suited(&self, own: &Member, members: &[Node]) -> Shape {
        self.tree.suited(own, members, self.header.len() + self.data.len() + self.reply as usize)
    }
}
