package quorum

import "time"

// Faulty says when a holder is held to be faulty: when whoever it blocks has
// seen the same heartbeat more than Threshold times, at least Interval apart, and
// for no less than the ttl that the holder gave itself, on so many nodes that the
// others are no majority. By then no validity rests on that heartbeat by its
// holder's own clock either, so what is removed is a key that should have gone by
// itself: one without an end, or on a node whose clock stands still.
//
// After 管理分布式锁的方法和计算机可读存储介质 (a patent application of 2018): the
// same time information seen more than a threshold of times means faulty, and a
// faulty lock that blocks others is released by force. There the threshold alone
// decides, and a holder that was only slow is robbed.
type Faulty struct {
	Interval  time.Duration // 0: a third of the ttl
	Threshold int           // 0: 3
}

func (f Faulty) withDefaults(ttl time.Duration) Faulty {
	if f.Interval == 0 {
		f.Interval = ttl / 3
	}
	if f.Threshold == 0 {
		f.Threshold = 3
	}
	return f
}

// sighting is what one node says of who has a wanted key, and for how long it
// has said the same.
type sighting struct {
	token, note string
	first, last time.Duration // monotonic: when it was seen first, and counted last
	times       int
}

// see counts what the nodes said of the key of a refused try. It goes by the
// monotonic clock alone: a wall clock that jumps ahead must not make another's
// promise older than it is.
func (m *Machine) see(l *lease) {
	now := m.last.Mono
	if m.sighted == nil {
		m.sighted = make(map[string][]sighting)
	}
	seen := m.sighted[l.key]
	if seen == nil {
		seen = make([]sighting, len(m.nodes))
		m.sighted[l.key] = seen
	}
	for i, st := range l.at {
		s := &seen[i]
		switch {
		case st.answer == NotAsked || st.answer == Silent:
			// A try is refused before all have answered. Whatever the node says
			// next, if it is the same it has been so all the time.
		case st.answer != No || st.holder.Token == "":
			*s = sighting{}
		case s.token != st.holder.Token || s.note != st.holder.Note:
			*s = sighting{token: st.holder.Token, note: st.holder.Note, first: now, last: now, times: 1}
		case now-s.last >= m.cfg.Faulty.Interval:
			s.last = now
			s.times++
		}
	}
	m.breakFaulty(l.key, seen)
}

// breakFaulty has the nodes remove faulty holders, where without them a majority
// could be had: exactly what they said, so that a heartbeat or another holder in
// between is safe.
func (m *Machine) breakFaulty(key string, seen []sighting) {
	faulty := 0
	for _, s := range seen {
		if m.faulty(s) {
			faulty++
		}
	}
	if faulty <= len(m.nodes)-m.majority() {
		return // the others are a majority
	}
	for i, s := range seen {
		if m.faulty(s) {
			m.owe(&m.nodes[i], Ask{Key: key, Token: s.token, Note: s.note})
			seen[i] = sighting{}
		}
	}
	m.stats.Forced++
}

// faulty reports whether a holder has been seen unchanged often and long enough.
func (m *Machine) faulty(s sighting) bool {
	ttl := MaxTTL // of a note that is not ours
	if note, ok := ParseNote(s.note); ok && note.TTL > 0 {
		ttl = note.TTL
	}
	return s.token != "" && s.times > m.cfg.Faulty.Threshold && m.last.Mono-s.first >= ttl
}
