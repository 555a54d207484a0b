package httpd

import (
	"net/http"
	"strconv"
	"sync/atomic"

	"salectl/api"
	"salectl/executor"
)

// places are the headers that say where claims are decided, by shard: made once, so that
// they cost an answer no allocation.
type places struct {
	at []atomic.Pointer[placeHeaders]
}

type placeHeaders struct {
	owner  string
	values [2][]string // of api.ShardHeader and api.OwnerHeader
}

// tell sets the headers, where it is known what they are to say.
func (s *sale) tell(h http.Header, p executor.Place) {
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
