package quorum

import "slices"

// reclaim owes a node the release of a key that it has promised to a token of
// ours that is spent. A ballot whose answer nobody waited for any more came in
// behind the release of its try: what a node does with what had come while it
// was stopped. It would keep the key from everybody for a ttl.
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

// issued reports whether a token was this machine's. Nobody else of a group asks for its key.
func (m *Machine) issued(token string) bool {
	if m.group != nil {
		return m.group.issued(token)
	}
	return m.spent.has(token)
}

// spent remembers the tokens under which nothing is wanted any more, the newest
// of them: a node that was stopped for minutes has as many ballots waiting.
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
