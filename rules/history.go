package rules

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// Purchase is what a user bought in one run of a sale.
type Purchase struct {
	Sale  string    `json:"sale"`
	Run   string    `json:"run"` // uid of the run; hidden from rules
	Units int64     `json:"units"`
	At    time.Time `json:"at"` // time of the last of them
}

// Histories provides the purchases of users in other sales. All methods are safe for concurrent use.
type Histories interface {
	// History returns the purchases of each id, in the order of ids, which may contain duplicates.
	// A user without purchases is not an error. An error leaves all of them unknown.
	History(ctx context.Context, ids []string) ([][]Purchase, error)
}

// Buyer is the purchase of one user in one run of a sale, for storage in a history.
type Buyer struct {
	User  string
	Units int64
	At    time.Time // time of the last of them
}

// History returns the user's purchases in other sales, the newest first, or nil if they were not
// read.
func (a Attributes) History() []Purchase {
	return a.record().history
}

// WithHistory returns a copy of a with purchases. Its digest identifies them, too.
func (a Attributes) WithHistory(bought []Purchase) Attributes {
	r := *a.of
	r.history = slices.SortedFunc(slices.Values(bought), func(p, q Purchase) int {
		return cmp.Or(q.At.Compare(p.At), cmp.Compare(p.Sale, q.Sale), cmp.Compare(p.Run, q.Run))
	})
	b := append([]byte("salectl.history.v1\x00"), a.of.digest[:]...)
	for _, p := range r.history {
		b = appendText(appendText(b, p.Sale), p.Run)
		b = binary.BigEndian.AppendUint64(b, uint64(p.Units))
		b = binary.BigEndian.AppendUint64(b, uint64(p.At.UnixMicro()))
	}
	r.digest = sha256.Sum256(b)
	return Attributes{&r}
}

// WithHistory returns a Users that adds purchases to users.
func WithHistory(users Users, bought Histories) Users { return usersWithHistory{users, bought} }

type usersWithHistory struct {
	users  Users
	bought Histories
}

func (u usersWithHistory) Lookup(ctx context.Context, ids []string) ([]Attributes, error) {
	all, err := u.users.Lookup(ctx, ids)
	if err != nil {
		return nil, err
	}
	bought, err := u.bought.History(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("look up purchases: %w", err)
	}
	if len(all) != len(ids) || len(bought) != len(ids) {
		return nil, fmt.Errorf("for %d ids the source returned %d users and %d histories", len(ids), len(all), len(bought))
	}
	for i := range all {
		all[i] = all[i].WithHistory(bought[i])
	}
	return all, nil
}
