//! Packets that are lost on the wire: every so manieth, or by chance.

use super::Net;

impl Net {
    /// Whether the wire loses a packet.
    #[cold]
    pub(super) fn is_lost(&mut self, link: u32, class: u8) -> bool {
        let port = &mut self.ports[link as usize];
        let spec = &self.spec.ports[link as usize];
        let mut lost = false;
        if spec.lose_every != 0 {
            port.until_loss -= 1;
            if port.until_loss == 0 {
                port.until_loss = spec.lose_every;
                lost = true;
            }
        }
        if spec.lose_per_2_32 != 0 {
            // The largest share stands for all.
            let share = spec.lose_per_2_32;
            lost |= self.draws.loss(link) < share || share == u32::MAX;
        }
        if lost {
            self.totals.lost += 1;
            let at = self.queue_at(link, class);
            self.counters[at].lost += 1;
        }
        lost
    }
}
