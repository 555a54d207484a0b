package quorum

import "slices"

// reclaim queues the release of a key that a node has promised to a spent token of this
// machine. That happens when a node that was stopped executes a timed-out ballot after the
// release of its try. Without reclaim the key would be blocked for a ttl.
func (m *Machine) reclaim(n *node, h Holding) {
	ask := Ask{Key: h.Key, Token: h.Token}
	current := func(l *lease) bool { return l.key == ask.Key && l.token == ask.Token }
	owed := func(a Ask) bool { return a.Key == ask.Key && a.Token == ask.Token }
	if !m.issued(ask.Token) || slices.ContainsFunc(n.owed, owed) ||
		slices.ContainsFunc(m.held, current) || slices.ContainsFunc(m.wanted, current) {
		return
	}
	m.owe(n, ask)
}

// issued reports whether a token was issued by this machine, or by its group, in which no other
// machine requests its key.
func (m *Machine) issued(token string) bool {
	if m.group != nil {
		return m.group.issued(token)
	}
	return m.spent.has(token)
}

// spent holds the newest tokens that are no longer in use: a node that was stopped for minutes
// may have as many ballots queued.
type spent struct {
	tokens map[string]bool
	oldest []string
}

const spentKept = 512

func (s *spent) add(token string) {
	if s.tokens[token] {
		return
	}
	if s.tokens == nil {
		s.tokens = make(map[string]bool)
	}
	if len(s.oldest) == spentKept {
		delete(s.tokens, s.oldest[0])
		s.oldest = s.oldest[1:]
	}
	s.tokens[token] = true
	s.oldest = append(s.oldest, token)
}

func (s *spent) has(token string) bool { return s.tokens[token] }
