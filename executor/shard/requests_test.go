package shard

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"salectl/api"
	"salectl/executor/request"
)

// waiters are requests, one of each user.
func waiters(users ...string) (ts []*request.Ticket) {
	for _, user := range users {
		ts = append(ts, request.NewTicket(new(sync.Pool), request.Request{User: user, Key: "key", Quantity: 1}, nil, 0))
	}
	return ts
}

// users names whose requests these are, with their answers if they have one.
func users(ts []*request.Ticket) string {
	var all []string
	for _, t := range ts {
		if all = append(all, t.User); t.Answer.Outcome != "" {
			all[len(all)-1] += ":" + string(t.Answer.Outcome)
		}
	}
	return strings.Join(all, " ")
}

// holds fails the test unless the requests are these: those short of units, those to be
// looked at, the batch, and those that were answered since the last time.
func (r *requests) holds(t *testing.T, short, fresh, batch, done string) {
	t.Helper()
	got := []string{users(r.short()), users(r.waiting[len(r.short()):]), users(r.batch), users(r.takeAnswered())}
	if want := []string{short, fresh, batch, done}; !slices.Equal(got, want) {
		t.Errorf("short, fresh, batch and done are %q, want %q", got, want)
	}
}

// TestRequests follows requests from their coming to their answers.
func TestRequests(t *testing.T) {
	// a is short of units, e and f do not fit the commit, w is withdrawn in time.
	begin := func() (r *requests, all []*request.Ticket) {
		r = new(requests)
		all = waiters("a", "b", "w", "c", "d", "e", "f")
		all[2].Withdraw()
		r.add(all[:3])
		r.add(all[3:])
		r.decide(func(t *request.Ticket) decision {
			switch t.User {
			case "a":
				return short
			case "e":
				return full
			}
			t.Answer = request.Answer{Outcome: api.Sold}
			return decided
		})
		return r, all
	}
	t.Run("decided", func(t *testing.T) {
		r, all := begin()
		r.holds(t, "a", "e f", "b:sold c:sold d:sold", "")
		if all[1].Withdraw() || !all[5].Withdraw() || !all[0].Withdraw() {
			t.Error("requests can be withdrawn until they are decided, and not after")
		}
		r.answerBatch(func(t *request.Ticket) request.Answer { return t.Answer })
		r.holds(t, "a", "e f", "", "b:sold c:sold d:sold")
	})
	t.Run("so many a commit", func(t *testing.T) {
		r := &requests{maxBatch: 2}
		r.add(waiters("a", "b", "c", "d"))
		r.decide(func(*request.Ticket) decision { return decided })
		r.holds(t, "", "c d", "a b", "")
	})
	t.Run("looked at again", func(t *testing.T) {
		r, _ := begin()
		r.retryAll()
		r.holds(t, "", "a e f", "b:sold c:sold d:sold", "")
	})
	t.Run("undone", func(t *testing.T) {
		r, all := begin()
		r.restoreBatch()
		r.holds(t, "", "b:sold c:sold d:sold a e f", "", "") // and are decided anew
		if !all[1].Withdraw() {
			t.Error("what is undone cannot be withdrawn")
		}
	})
	t.Run("refused", func(t *testing.T) {
		r, all := begin()
		all[5].Withdraw()
		r.refuseAll(request.Answer{Outcome: api.Standby})
		r.holds(t, "", "", "b:sold c:sold d:sold", "a:standby f:standby")
		if all[0].Withdraw() {
			t.Error("a request that has its answer can be withdrawn")
		}
	})
	t.Run("short of units for good", func(t *testing.T) {
		r, _ := begin()
		more := waiters("g", "h")
		more[0].Withdraw()
		r.waiting = slices.Insert(r.waiting, 1, more...)
		r.refuse(0, len(r.short()), func(*request.Ticket) request.Answer { return request.Answer{Outcome: api.SoldOut} })
		r.holds(t, "", "e f", "b:sold c:sold d:sold", "a:sold_out h:sold_out")
	})
	t.Run("short of units for good but for some", func(t *testing.T) {
		r, _ := begin()
		r.waiting = slices.Insert(r.waiting, 1, waiters("g", "h")...)
		r.refuse(0, len(r.short()), allBut("g"))
		r.holds(t, "g", "e f", "b:sold c:sold d:sold", "a:sold_out h:sold_out")
	})
	t.Run("sifted", func(t *testing.T) {
		r, _ := begin()
		r.refuse(len(r.short()), len(r.waiting), allBut("f"))
		r.holds(t, "a f", "", "b:sold c:sold d:sold", "e:sold_out")
	})
}

// allBut returns the answers that refuse all users but one, who waits on.
func allBut(user string) func(*request.Ticket) request.Answer {
	return func(t *request.Ticket) request.Answer {
		if t.User == user {
			return request.Answer{}
		}
		return request.Answer{Outcome: api.SoldOut}
	}
}
