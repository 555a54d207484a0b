package httpd

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"salectl/api"
	"salectl/executor"
)

// places has the headers that say where claims are decided, by shard. They are made once, which saves each
// response an allocation.
type places struct {
	at []atomic.Pointer[placeHeaders]
}

type placeHeaders struct {
	owner  string
	values [2][]string // of api.ShardHeader and api.OwnerHeader
}

// setPlace sets the headers that say where a request is decided, if that is known.
func (s *sale) setPlace(h http.Header, p executor.Place) {
	if p.Shards <= 0 || p.Shard < 0 || p.Shard >= p.Shards {
		return
	}
	all := s.places.Load()
	if all == nil || len(all.at) != p.Shards {
		all = &places{at: make([]atomic.Pointer[placeHeaders], p.Shards)}
		s.places.Store(all)
	}
	one := all.at[p.Shard].Load()
	if one == nil || one.owner != p.Owner {
		one = &placeHeaders{owner: p.Owner}
		one.values[0] = []string{strconv.Itoa(p.Shard) + "/" + strconv.Itoa(p.Shards)}
		one.values[1] = []string{p.Owner}
		all.at[p.Shard].Store(one)
	}
	h[api.ShardHeader] = one.values[0]
	if p.Owner != "" {
		h[api.OwnerHeader] = one.values[1]
	}
}
