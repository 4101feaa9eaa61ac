//! `umbra devices`: which RDMA devices are there, and can they be used?

use clap::Args;
use serde::Serialize;
use umbra::verbs::{Choice, Device, PortInfo, PortState, VerbsError, devices};

use super::table::{Set, Table};
use super::{Done, Failure, Out, code_of, paint, print_json, verdict};

/// List RDMA devices with their ports and addresses.
///
/// What the last column names can be given to --device of `umbra run` and of agents, without its last parts if these do not
/// matter. Fails if there is none that carries data, and says what to do about it.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Devices {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = paint::examples!(
    "umbra devices"         "a line for each address of each port";
    "umbra devices --json"  "the same for programs";
);

#[derive(Serialize)]
struct Listing {
    devices: Vec<Entry>,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    ports: Vec<Port>,
    /// Why nothing more is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize)]
struct Port {
    number: u8,
    state: String,
    link: String,
    mtu_bytes: u32,
    lid: u16,
    gids: Vec<Gid>,
}

#[derive(Serialize)]
struct Gid {
    index: u32,
    kind: String,
    address: String,
    preferred: bool,
    /// What `--device` takes.
    choice: String,
}

impl Port {
    fn new(device: &str, info: &PortInfo) -> Port {
        let preferred = info.preferred_gid().map(|gid| gid.index);
        let gid = |gid: &umbra::verbs::Gid| Gid {
            index: gid.index,
            kind: gid.kind.to_string(),
            address: gid.to_string(),
            preferred: preferred == Some(gid.index),
            choice: Choice { device: device.to_owned(), port: Some(info.number), gid: Some(gid.index) }.to_string(),
        };
        Port {
            number: info.number,
            state: info.state.to_string(),
            link: info.link.to_string(),
            mtu_bytes: info.mtu,
            lid: info.lid,
            gids: info.gids.iter().map(gid).collect(),
        }
    }
}

impl Devices {
    pub(crate) fn execute(&self, out: Out<'_>) -> Done {
        let mut listing = Listing { devices: Vec::new() };
        let mut usable = false;
        for name in devices().map_err(Failure::failed)? {
            // One that cannot be looked at hides no other.
            let (ports, error) = match look(&name, &mut usable) {
                Ok(ports) => (ports, None),
                Err(error) => (Vec::new(), Some(error.to_string())),
            };
            listing.devices.push(Entry { name, ports, error });
        }
        let shown = match self.json {
            true => print_json(out, &listing),
            false if listing.devices.is_empty() => Ok(()),
            false => listing.table().print(out).map_err(Failure::from),
        };
        let code = verdict(code_of(usable), shown)?;
        if listing.devices.is_empty() {
            return Err(Failure::failed(VerbsError::NoDevice));
        }
        Ok(code)
    }
}

/// The ports of a device; sets `usable` if one of them carries data.
fn look(name: &str, usable: &mut bool) -> Result<Vec<Port>, VerbsError> {
    let device = Device::open(Some(name))?;
    let mut ports = Vec::new();
    for number in 1..=device.ports() {
        let info = device.port(number)?;
        *usable |= info.state == PortState::Active && !info.gids.is_empty();
        ports.push(Port::new(name, &info));
    }
    Ok(ports)
}

impl Listing {
    fn table(&self) -> Table {
        let mut table = Table::new(&[
            ("device", Set::Left),
            ("port", Set::Right),
            ("state", Set::Left),
            ("link", Set::Left),
            ("MTU", Set::Right),
            ("GID", Set::Right),
            ("kind", Set::Left),
            ("address", Set::Left),
            ("--device", Set::Left),
        ]);
        let none = String::new;
        for device in &self.devices {
            if let Some(error) = &device.error {
                let (name, error) = (device.name.clone(), error.clone());
                table.row([name, none(), error, none(), none(), none(), none(), none(), none()]);
            }
            for port in &device.ports {
                let head = [
                    device.name.clone(),
                    port.number.to_string(),
                    port.state.clone(),
                    port.link.clone(),
                    format!("{} B", port.mtu_bytes),
                ];
                let [name, number, state, link, mtu] = head;
                if port.gids.is_empty() {
                    table.row([name, number, state, link, mtu, none(), none(), none(), none()]);
                    continue;
                }
                for gid in &port.gids {
                    let mark = if gid.preferred { " (preferred)" } else { "" };
                    table.row([
                        name.clone(),
                        number.clone(),
                        state.clone(),
                        link.clone(),
                        mtu.clone(),
                        gid.index.to_string(),
                        gid.kind.clone(),
                        format!("{}{mark}", gid.address),
                        gid.choice.clone(),
                    ]);
                }
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_cannot_be_looked_at_is_listed_beside_others() {
        let port = || Port {
            number: 1,
            state: "active".into(),
            link: "Ethernet".into(),
            mtu_bytes: 1024,
            lid: 0,
            gids: Vec::new(),
        };
        let good = Entry { name: "rxe0".into(), ports: vec![port()], error: None };
        let bad = Entry { name: "mlx5_9".into(), ports: Vec::new(), error: Some("no permission".into()) };
        let rows = Listing { devices: vec![bad, good] }.table().rows().to_vec();
        assert_eq!((rows[0][0].as_str(), rows[0][2].as_str()), ("mlx5_9", "no permission"));
        assert_eq!((rows[1][0].as_str(), rows[1][2].as_str()), ("rxe0", "active"));
        assert_eq!(rows.len(), 2);
    }
}
