package quorum

import "time"

// faultyAfter is how many times a key may see the same heartbeat of a holder that blocks it. When it
// has seen one more often, at least a third of its ttl apart, over at least the holder's own ttl, and on
// so many nodes that the others are no majority, the holder counts as faulty. By then the holder's lease
// has ended by its own clock too. So only a key that should have expired is removed: one without an
// expiry, or one on a node whose clock stands still.
//
// After 管理分布式锁的方法和计算机可读存储介质 (a patent application of 2018): the same time information seen more
// than a threshold of times means faulty, and a faulty lock that blocks others is released by
// force. There the threshold alone decides, so that a slow holder loses its lock too.
const faultyAfter = 3

// sighting is the holder of a wanted key that one node names, and since when.
type sighting struct {
	token, note string
	first, last time.Duration // monotonic: time of the first observation, and of the last one counted
	times       int
}

// observeHolders records the holders that nodes named in a refused try. It uses the monotonic
// clock only: a wall clock that jumps ahead must not make another holder's promise older.
func (k *key) observeHolders() {
	now := k.g.last.Mono
	if k.sightings == nil {
		k.sightings = make([]sighting, len(k.nodes))
	}
	for i, st := range k.lease.at {
		s := &k.sightings[i]
		switch {
		case st.answer == NotQueried || st.answer == Silent:
			// A try is refused before all nodes have answered. If the node's next answer is the
			// same, nothing has changed in between.
		case st.answer != No || st.holder.Token == "":
			*s = sighting{}
		case s.token != st.holder.Token || s.note != st.holder.Note:
			*s = sighting{token: st.holder.Token, note: st.holder.Note, first: now, last: now, times: 1}
		case now-s.last >= k.g.cfg.TTL/3:
			s.last = now
			s.times++
		}
	}
	k.breakFaulty()
}

// breakFaulty makes the nodes remove faulty holders if a majority is possible without them. It
// names the token and note that the nodes reported, so that a holder that has renewed since, or
// another one, is safe.
func (k *key) breakFaulty() {
	faulty := 0
	for _, s := range k.sightings {
		if k.faulty(s) {
			faulty++
		}
	}
	if faulty <= len(k.nodes)-k.g.majority() {
		return // the others are a majority
	}
	for i, s := range k.sightings {
		if k.faulty(s) {
			k.queueRelease(&k.nodes[i], LeaseRequest{Key: k.name, Token: s.token, Note: s.note})
			k.sightings[i] = sighting{}
		}
	}
	k.g.stats.Forced++
}

// faulty reports whether a holder was seen unchanged often enough and for long enough.
func (k *key) faulty(s sighting) bool {
	ttl := MaxTTL // for a note in another form
	if note, ok := ParseNote(s.note); ok && note.TTL > 0 {
		ttl = note.TTL
	}
	return s.token != "" && s.times > faultyAfter && k.g.last.Mono-s.first >= ttl
}
