//! The numbers of firmware commands: bit offsets and widths of fields, opcodes.
//!
//! Source: the public interface definitions of the ConnectX family (`mlx5_ifc.h` of Linux, whose structures bear the
//! names given here), and for the context of an alias of a memory key the same structure as OpenUCX uses it.

use super::bits::Field;

/// `opcode`, which begins every command.
pub const OPCODE: Field = Field::new(0x00, 0x10);
/// `op_mod`.
pub const OP_MOD: Field = Field::new(0x30, 0x10);
/// `status`, which begins every answer.
pub const STATUS: Field = Field::new(0x00, 0x08);
/// `syndrome` of an answer.
pub const SYNDROME: Field = Field::new(0x20, 0x20);
/// Bytes that every answer has.
pub const ANSWER: usize = 16;

/// An object that another function may be allowed to use: `MLX5_OBJ_TYPE_MKEY`.
pub const OBJECT_MKEY: u64 = 0xff01;

/// `query_hca_cap`.
pub mod query {
    use super::Field;

    /// Its number.
    pub const OPCODE: u64 = 0x100;
    /// `op_mod`: general properties, as they are in use now.
    pub const GENERAL_NOW: u64 = 1;
    /// Bytes of the command.
    pub const COMMAND: usize = 16;
    /// Bytes of the answer: 16, then 4 KiB of properties.
    pub const ANSWER: usize = 16 + 4096;
    /// `vhca_id` of the answer.
    pub const VHCA: Field = Field::new(0x30, 0x10).inside(8 * super::ANSWER);
}

/// `create_mkey`.
pub mod create_mkey {
    use super::Field;

    /// Its number.
    pub const OPCODE: u64 = 0x200;
    /// Where `memory_key_mkey_entry` begins, in bits.
    pub const CONTEXT: usize = 0x80;
    /// `rw`: others may write.
    pub const REMOTE_WRITE: Field = Field::new(0x12, 1).inside(CONTEXT);
    /// `rr`: others may read.
    pub const REMOTE_READ: Field = Field::new(0x13, 1).inside(CONTEXT);
    /// `lw`: work of the own function may write.
    pub const LOCAL_WRITE: Field = Field::new(0x14, 1).inside(CONTEXT);
    /// `lr`: work of the own function may read.
    pub const LOCAL_READ: Field = Field::new(0x15, 1).inside(CONTEXT);
    /// `access_mode_1_0`.
    pub const MODE: Field = Field::new(0x16, 2).inside(CONTEXT);
    /// `qpn`: all bits set for any queue pair.
    pub const QUEUE_PAIR: Field = Field::new(0x20, 0x18).inside(CONTEXT);
    /// `pd`.
    pub const DOMAIN: Field = Field::new(0x68, 0x18).inside(CONTEXT);
    /// `start_addr`.
    pub const START: Field = Field::new(0x80, 0x40).inside(CONTEXT);
    /// `len`.
    pub const LEN: Field = Field::new(0xc0, 0x40).inside(CONTEXT);
    /// `translations_octword_size`.
    pub const ENTRIES: Field = Field::new(0x1a0, 0x20).inside(CONTEXT);
    /// `log_page_size`: of the bytes behind one entry.
    pub const LOG_ENTRY: Field = Field::new(0x1db, 5).inside(CONTEXT);
    /// `translations_octword_actual_size`.
    pub const ENTRIES_HERE: Field = Field::new(0x300, 0x20);
    /// Bytes before the entries (`klm_pas_mtt`).
    pub const HEAD: usize = 0x880 / 8;
    /// Bytes of an entry.
    pub const ENTRY: usize = 16;
    /// `mkey` of an entry.
    pub const ENTRY_KEY: Field = Field::new(0x20, 0x20);
    /// `address` of an entry.
    pub const ENTRY_ADDRESS: Field = Field::new(0x40, 0x40);
    /// `MLX5_MKC_ACCESS_MODE_KSM`: entries of one size, each a part of another key.
    pub const MODE_KSM: u64 = 3;
    /// `mkey_index` of the answer.
    pub const INDEX: Field = Field::new(0x48, 0x18);
}

/// `allow_other_vhca_access`.
pub mod allow {
    use super::Field;

    /// Its number.
    pub const OPCODE: u64 = 0xb16;
    /// `object_type_to_be_accessed`.
    pub const TYPE: Field = Field::new(0x90, 0x10);
    /// `object_id_to_be_accessed`.
    pub const OBJECT: Field = Field::new(0xa0, 0x20);
    /// Where the 32 bytes of `access_key` begin, in bytes.
    pub const KEY: usize = 0x100 / 8;
    /// Bytes of the command.
    pub const COMMAND: usize = KEY + 32;
}

/// `create_alias_obj`: `create_general_object` with the context of an alias.
pub mod alias {
    use super::Field;

    /// Its number.
    pub const OPCODE: u64 = 0xa00;
    /// `obj_type`.
    pub const TYPE: Field = Field::new(0x30, 0x10);
    /// `alias_object`.
    pub const IS_ALIAS: Field = Field::new(0x60, 1);
    /// Where `alias_ctx` begins, in bits: in the command and in the answer.
    pub const CONTEXT: usize = 0x80;
    /// `vhca_id_to_be_accessed`.
    pub const VHCA: Field = Field::new(0x00, 0x10).inside(CONTEXT);
    /// `status` of the alias.
    pub const STATE: Field = Field::new(0x1d, 3).inside(CONTEXT);
    /// `object_id_to_be_accessed`.
    pub const OBJECT: Field = Field::new(0x20, 0x20).inside(CONTEXT);
    /// Where the 32 bytes of `access_key` begin, in bytes.
    pub const KEY: usize = (CONTEXT + 0x80) / 8;
    /// The first word of `metadata`: for a memory key, the protection domain.
    pub const DOMAIN: Field = Field::new(0x180, 0x20).inside(CONTEXT);
    /// Bytes of the command and of the answer.
    pub const COMMAND: usize = (CONTEXT + 0x200) / 8;
    /// `obj_id` of the answer.
    pub const ID: Field = Field::new(0x40, 0x20);
}
