package process

import "salectl/spec"

// Place is where the claims of some users are decided.
type Place struct {
	Shard, Shards int    // Shards is 0 where it is not known
	Owner         string // the address of the process; "": it is not known
}

// Place returns where a user's claims are decided.
func (d *Admission) Place(user string) Place {
	t := d.serving.Load()
	if t == nil {
		return Place{}
	}
	return t.place(spec.HomeShard(user, len(t.shards)))
}

// PlaceOf returns where the claims of a shard are decided.
func (d *Admission) PlaceOf(shard int) Place {
	t := d.serving.Load()
	if t == nil || shard < 0 || shard >= len(t.shards) {
		return Place{}
	}
	return t.place(shard)
}

// place is where the claims of a shard are decided.
func (t *session) place(i int) Place {
	if t.local(i) != nil {
		return Place{Shard: i, Shards: len(t.shards), Owner: t.cfg.Address}
	}
	return Place{Shard: i, Shards: len(t.shards), Owner: t.remotes[i].Route().Address}
}
