package ledger

import (
	"iter"

	"salectl/backends/ledger/internal/chunked"
)

// users has the users with claims on a shard, with the sums that their limits apply to.
type users struct {
	text    *texts
	byName  table // to records
	records chunked.List[userRecord]

	unpaid map[uint32]uint32 // numbers of claims that were cancelled or have expired
}

type userRecord struct {
	name   text
	units  int64  // held and sold
	claims uint32 // number of claims
	last   uint32 // newest claim of the user, +1
}

// find returns the index of a user. hash is that of the name.
func (u *users) find(hash uint64, name string) (uint32, bool) {
	return u.byName.find(hash, func(i uint32) bool { return u.text.equal(u.records.At(i).name, name) })
}

// add adds a user and returns its index.
func (u *users) add(hash uint64, name string) uint32 {
	i := u.records.Add(userRecord{name: u.text.put(name)})
	u.byName.add(hash, i)
	return i
}

func (u *users) name(i uint32) string { return u.text.get(u.records.At(i).name) }

// sums returns the number of units of the user of a request, held and sold, and the number of the
// user's claims that were cancelled or have expired.
func (u *users) sums(at claimIndex) (units, unpaid int64) {
	if at.user == 0 {
		return 0, 0
	}
	return u.records.At(at.user - 1).units, int64(u.unpaid[at.user-1])
}

// Users returns an iterator over the users who have claims here, each with the number of its
// units, held and sold.
func (u *users) Users() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for i := range uint32(u.records.Len()) {
			if !yield(u.name(i), u.records.At(i).units) {
				return
			}
		}
	}
}

// UserUnits returns the number of units of a user, held and sold.
func (u *users) UserUnits(user string) int64 {
	i, ok := u.find(u.text.hash(user), user)
	if !ok {
		return 0
	}
	return u.records.At(i).units
}
