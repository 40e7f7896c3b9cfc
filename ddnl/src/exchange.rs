// SPDX-License-Identifier: GPL-2.0-only

//! One request and its replies, as datagrams that are passed in and out, without a socket or a
//! clock.

use crate::{
    attributes::{Attributes, text},
    call::Call,
    error::{Error, Result},
    family::{Family, Side},
    reply::Event,
};
use netlink_packet_core::{
    DecodeError, Emitable, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR,
    NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload, ParseableParametrized,
};
use netlink_packet_generic::{
    GenlFamily, GenlHeader, GenlMessage,
    constants::{CTRL_ATTR_FAMILY_NAME, CTRL_CMD_DELFAMILY, CTRL_CMD_NEWFAMILY, GENL_ID_CTRL},
};

/// Tells whether more datagrams have to be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// More replies follow.
    More,
    /// The replies are complete.
    Done,
}

/// The replies to one request that were received so far.
#[derive(Debug)]
pub struct Exchange {
    side: Side,
    sequence: u32,
    replies: Vec<Attributes>,
    /// The state changed while it was dumped, so that the replies are inconsistent.
    interrupted: bool,
}

impl Exchange {
    /// Begins an exchange. Returns it with the datagram to send.
    pub fn begin<T>(family: &Family, sequence: u32, call: &Call<T>) -> (Self, Vec<u8>) {
        let body = Body {
            family: family.id,
            command: call.command,
            version: family.version,
            attributes: call.attributes.clone(),
        };
        let mut header = NetlinkHeader::default();
        header.sequence_number = sequence;
        header.flags = NLM_F_REQUEST | if call.dump { NLM_F_DUMP } else { NLM_F_ACK };
        let mut message = NetlinkMessage::new(header, GenlMessage::from_payload(body).into());
        message.finalize();
        let mut datagram = vec![0; message.buffer_len()];
        message.serialize(&mut datagram);
        let exchange = Self {
            side: family.side,
            sequence,
            replies: Vec::new(),
            interrupted: false,
        };
        (exchange, datagram)
    }

    /// Takes one datagram from the kernel.
    pub fn receive(&mut self, datagram: &[u8]) -> Result<Progress> {
        for message in messages(datagram) {
            let message = message?;
            if message.header.sequence_number != self.sequence {
                continue;
            }
            // The remaining replies are still read, because the socket accepts no other dump
            // request until then.
            self.interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
            let flags = message.header.flags;
            match message.payload {
                NetlinkPayload::InnerMessage(reply) => {
                    self.replies.push(reply.payload.attributes);
                }
                NetlinkPayload::Error(error) => {
                    return match error.code {
                        None => Ok(Progress::Done),
                        Some(code) => Err(Error::from_kernel(
                            self.side,
                            code.get().saturating_abs(),
                            kernel_words(flags, &error.header),
                        )),
                    };
                }
                NetlinkPayload::Done(done) if done.code < 0 => {
                    let words = message_of(&done.extended_ack);
                    let errno = done.code.saturating_abs();
                    return Err(Error::from_kernel(self.side, errno, words));
                }
                NetlinkPayload::Done(_) if self.interrupted => return Err(Error::Interrupted),
                NetlinkPayload::Done(_) => return Ok(Progress::Done),
                NetlinkPayload::Overrun(_) => return Err(Error::Overrun),
                _ => {}
            }
        }
        Ok(Progress::More)
    }

    /// Returns the replies. To be called after [`Progress::Done`].
    pub fn finish(self) -> Vec<Attributes> {
        self.replies
    }
}

/// Returns the events in one datagram of the multicast group.
pub fn events(family: &Family, datagram: &[u8]) -> Result<Vec<Event>> {
    notifications(datagram)?
        .into_iter()
        .filter(|(kind, ..)| *kind == family.id)
        .map(|(_, _, attributes)| Event::read(&attributes))
        .collect()
}

/// Returns whether the module was loaded (true) or unloaded (false), for each of the kernel's
/// announcements about its family in a datagram, in order.
pub(crate) fn registrations(side: Side, datagram: &[u8]) -> Result<Vec<bool>> {
    let registration = |(kind, command, attributes): (u16, u8, Attributes)| {
        let name = attributes.find(CTRL_ATTR_FAMILY_NAME).map(text);
        if kind != GENL_ID_CTRL || name.as_deref() != Some(side.family()) {
            return None;
        }
        match command {
            CTRL_CMD_NEWFAMILY => Some(true),
            CTRL_CMD_DELFAMILY => Some(false),
            _ => None,
        }
    };
    let all = notifications(datagram)?;
    Ok(all.into_iter().filter_map(registration).collect())
}

/// Returns message type, command and attributes of each notification in a datagram.
fn notifications(datagram: &[u8]) -> Result<Vec<(u16, u8, Attributes)>> {
    let mut found = Vec::new();
    for message in messages(datagram) {
        let message = message?;
        let kind = message.header.message_type;
        if let NetlinkPayload::InnerMessage(message) = message.payload {
            found.push((kind, message.header.cmd, message.payload.attributes));
        }
    }
    Ok(found)
}

/// A generic netlink message without its headers.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Body {
    family: u16,
    command: u8,
    version: u8,
    attributes: Attributes,
}

impl GenlFamily for Body {
    fn family_name() -> &'static str {
        "doubledecker"
    }

    fn family_id(&self) -> u16 {
        self.family
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        self.version
    }
}

impl Emitable for Body {
    fn buffer_len(&self) -> usize {
        self.attributes.buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Body {
    fn parse_with_param(bytes: &[u8], header: GenlHeader) -> Result<Self, DecodeError> {
        let attributes =
            Attributes::parse(bytes).map_err(|error| DecodeError::from(error.to_string()))?;
        Ok(Self {
            family: 0,
            command: header.cmd,
            version: header.version,
            attributes,
        })
    }
}

type Message = NetlinkMessage<GenlMessage<Body>>;

/// Returns the messages of a datagram up to the first malformed one, which is returned as an error.
fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<Message>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let message = Message::deserialize(rest);
        rest = match &message {
            Ok(message) => {
                let length = message.header.length as usize;
                rest.get(length.next_multiple_of(4)..).unwrap_or_default()
            }
            Err(_) => &[],
        };
        Some(message.map_err(|error| Error::malformed(error.to_string())))
    })
}

/// Size of a netlink header, which an error message repeats before its attributes.
const HEADER: usize = 16;

/// Returns the kernel's message text in an error. `echo` is a copy of the request, or of its
/// header, followed by attributes.
fn kernel_words(flags: u16, echo: &[u8]) -> Option<String> {
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let skip = if flags & NLM_F_CAPPED != 0 {
        HEADER
    } else {
        let length = u32::from_ne_bytes(echo.get(..4)?.try_into().ok()?);
        usize::try_from(length).ok()?.checked_next_multiple_of(4)?
    };
    message_of(echo.get(skip..)?)
}

fn message_of(attributes: &[u8]) -> Option<String> {
    const NLMSGERR_ATTR_MSG: u16 = 1;
    let attributes = Attributes::parse(attributes).ok()?;
    attributes.find(NLMSGERR_ATTR_MSG).map(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an announcement of a family in the kernel's format.
    fn announcement(kind: u16, command: u8, family: &str) -> Vec<u8> {
        let attributes = Attributes::new().raw_string(CTRL_ATTR_FAMILY_NAME, family);
        let mut payload = vec![command, 2, 0, 0];
        let mut bytes = vec![0; attributes.buffer_len()];
        attributes.emit(&mut bytes);
        payload.extend(bytes);
        let length = u32::try_from(HEADER + payload.len()).unwrap();
        let mut message = length.to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend([0; 10]);
        message.extend(payload);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    #[test]
    fn modules_come_and_go() {
        let (own, other) = (Side::Host.family(), Side::Guest.family());
        let datagram = [
            announcement(GENL_ID_CTRL, CTRL_CMD_NEWFAMILY, own),
            announcement(GENL_ID_CTRL, CTRL_CMD_NEWFAMILY, other),
            // A message of another family that has the same content.
            announcement(GENL_ID_CTRL + 9, CTRL_CMD_NEWFAMILY, own),
            announcement(GENL_ID_CTRL, CTRL_CMD_DELFAMILY, own),
            announcement(GENL_ID_CTRL, 200, own),
        ];
        let seen = registrations(Side::Host, &datagram.concat()).unwrap();
        assert_eq!(seen, [true, false]);
    }
}
