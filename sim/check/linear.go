package check

import (
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"salectl/api"
)

// step is an operation on one user's claims of one run, of which the state is
// how many of them there are, in the order of the ledger.
type step struct {
	write  bool // the claim lo comes to be
	lo, hi int  // else: how many there are while it is looked
}

var claimsOfUser = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		n, in := state.(int), input.(step)
		if in.write {
			return n == in.lo, n + 1
		}
		return n >= in.lo && n <= in.hi, n
	},
}

// linear checks that the claims and reads of each user could have happened one
// after another, each at one moment while it ran. A claim happens after it was
// stored, and before anybody is told of it.
func linear(e *evidence, bad fault) {
	users := make(map[subject]*account)
	var order []subject
	for _, c := range e.claims {
		if c.again {
			continue
		}
		id := subject{c.at.log.run, c.user}
		if users[id] == nil {
			users[id] = new(account)
			order = append(order, id)
		}
		users[id].claims = append(users[id].claims, c)
	}
	for i, o := range e.all(ClaimInvoked) {
		e.observe(users, i, o, bad)
	}
	for i, o := range e.all(ReadInvoked) {
		e.observe(users, i, o, bad)
	}
	var parts [][]porcupine.Operation
	var whose []subject
	for _, id := range order {
		if a := users[id]; len(a.reads) > 0 { // else nobody has seen in which order they came
			parts, whose = append(parts, a.history()), append(whose, id)
		}
	}
	together := claimsOfUser
	together.Partition = func([]porcupine.Operation) [][]porcupine.Operation { return parts }
	if porcupine.CheckOperations(together, nil) {
		return
	}
	for i, id := range whose {
		if !porcupine.CheckOperations(claimsOfUser, parts[i]) {
			bad("the %d claims of user %q in run %s and what was seen of them (operations %v) fit into no order",
				len(users[id].claims), id.user, id.run.uid, users[id].ops)
		}
	}
}

type subject struct {
	run  *run
	user string
}

// account is what there is to know of one user in one run.
type account struct {
	claims  []*claim // in the order of the log, which is that of the store
	answers map[*claim]int64
	reads   []porcupine.Operation
	ops     []int // whose reads these are
}

// history returns the claims and what was seen of them.
func (a *account) history() []porcupine.Operation {
	all := a.reads
	for n, c := range a.claims {
		stored := int64(c.at.Seq)
		all = append(all, porcupine.Operation{
			ClientId: n, Input: step{write: true, lo: n}, Call: stored, Return: max(a.answeredAt(c), stored),
		})
	}
	return all
}

// answeredAt returns when the first answer reported a claim.
func (a *account) answeredAt(c *claim) int64 {
	if at, ok := a.answers[c]; ok && !c.at.log.run.ackRedis { // else its node reported it
		return at
	}
	return math.MaxInt64
}

// observe adds the claims of the user in an operation's answer.
func (e *evidence) observe(users map[subject]*account, i int, o *operation, bad fault) {
	if !o.answered() {
		return
	}
	if c := e.granted(o); c != nil {
		a := users[subject{c.at.log.run, c.user}]
		if a.answers == nil {
			a.answers = make(map[*claim]int64)
		}
		if at, ok := a.answers[c]; !ok || at > int64(o.returned.Seq) {
			a.answers[c] = int64(o.returned.Seq)
		}
		if at := o.returned.Place; o.returned.Answer.Replayed && c.at.Seq < at.Seq && !c.at.unheard(at) { // else its node answered so
			a.addRead(i, o, slices.Index(a.claims, c)+1, len(a.claims))
		}
		return
	}
	r := e.runOf(o)
	a := users[subject{r, o.invoked.User}]
	switch outcome := o.returned.Answer.Outcome; {
	case a == nil: // there is nothing to be seen
	case o.invoked.Kind == ReadInvoked && outcome == "", outcome == api.LimitReached:
		list := o.returned.Answer.Claims
		if r.ackRedis && outcome == api.LimitReached {
			return // its node answered so, whatever the ledger had by then
		}
		count := len(list)
		if outcome == api.LimitReached {
			count = o.returned.Answer.Count
		}
		// A refusal lists 10 claims at most.
		if len(list) > count || len(list) == 0 && count > 0 || outcome == api.LimitReached && len(list) > 10 {
			bad("operation %d: user %q was told of %d claims as the newest of %d", i, o.invoked.User, len(list), count)
			return
		}
		for n, c := range list {
			if at := count - len(list) + n; at >= len(a.claims) || a.claims[at].id() != c.ID {
				bad("operation %d: user %q was told of %d claims, of which %s is not the user's, or not in its place", i, o.invoked.User, count, c.ID)
				return
			}
		}
		a.addRead(i, o, count, count)
	case outcome == api.SoldOut, outcome == api.NoneNow, outcome == api.UnitsTaken, outcome == api.NotAdjacent, outcome == api.Paused, outcome == api.Closed && !e.sealedBy(o, r):
		for n, c := range a.claims {
			if c.key == o.invoked.Key {
				a.addRead(i, o, 0, n) // the same request that was accepted gets the same answer
			}
		}
	}
}

// sealedBy reports whether a shard of the run was sealed when the operation
// returned: then its claims are answered no more.
func (e *evidence) sealedBy(o *operation, r *run) bool {
	for _, l := range r.shards {
		if slices.ContainsFunc(l.slots, func(s *slot) bool { return s.after.sealed && s.Seq < o.returned.Seq }) {
			return true
		}
	}
	return false
}

func (a *account) addRead(i int, o *operation, lo, hi int) {
	a.ops = append(a.ops, i)
	a.reads = append(a.reads, porcupine.Operation{
		ClientId: i, Input: step{lo: lo, hi: hi}, Call: int64(o.invoked.Seq), Return: int64(o.returned.Seq),
	})
}
