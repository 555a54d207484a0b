package httpd

import (
	"encoding/json"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"salectl/backends/clock"
	"salectl/executor"
	"salectl/spec"
)

// sale is one sale as this server has it.
type sale struct {
	executor.Service
	name    string
	metrics saleMetrics

	// opens is the last opening time read; see opensAt.
	opens atomic.Pointer[opening]
}

type opening struct {
	at   time.Time
	read clock.Now
}

// opensAt returns when the sale opens, at most a second late to learn that this
// has changed. Status looks at every shard, and the crowd that asks is largest
// before the sale has opened, so it is not called for each of them.
func (s *sale) opensAt(now clock.Now) time.Time {
	if o := s.opens.Load(); o != nil && now.Since(o.read) < time.Second {
		return o.at
	}
	o := &opening{at: s.Status().OpensAt, read: now}
	s.opens.Store(o)
	return o.at
}

// packetsSince returns what the units of claims are worth that the sale told of
// since it said before. Whoever answered may have lost the sale meanwhile, and
// tells nothing any more; or another run has begun: no amount is better than that
// of another.
func (s *sale) packetsSince(before *spec.Packets) *spec.Packets {
	switch after := s.Packets(); {
	case before == nil:
		return after
	case after == nil, after.Same(before):
		return before
	}
	return nil
}

// packetsView is what the units of a red packet hold together, all of them,
// whoever has them.
type packetsView struct {
	Currency string `json:"currency"`
	Total    string `json:"total"` // an exact decimal
}

// packetsView returns what the sale's packets come to, nil if it has none.
func (s *sale) packetsView() *packetsView {
	packets := s.Packets()
	if packets == nil {
		return nil
	}
	return &packetsView{packets.Currency, packets.Format(packets.Total())}
}

// saleView is the answer to GET /v1/sales/{sale}.
type saleView struct {
	Sale         string     `json:"sale"`
	Phase        string     `json:"phase"`
	Stock        int64      `json:"stock"` // units added minus removed, over all shards
	Available    int64      `json:"available"`
	Held         int64      `json:"held"`
	Sold         int64      `json:"sold"`
	InFlight     int64      `json:"inFlight"` // on their way from one shard to another
	PerUserLimit int64      `json:"perUserLimit"`
	OpensAt      *time.Time `json:"opensAt,omitempty"`
	ClosesAt     *time.Time `json:"closesAt,omitempty"`
	Generation   uint64     `json:"generation"`
	ServerTime   time.Time  `json:"serverTime"`

	Packets *packetsView `json:"packets,omitempty"` // of a red packet
	Lists   *listsView   `json:"lists,omitempty"`   // where nodes have them

	Nodes  []nodeView  `json:"nodes"`
	Shards []shardView `json:"shards"` // those that stall
}

// nodeView is a lock node as the server sees it.
type nodeView struct {
	Name  string    `json:"name"`
	Up    bool      `json:"up"`
	Since time.Time `json:"since"` // when that began
	Error string    `json:"error,omitempty"`
	// VotesFrom is set while the node abstains, because it lost its memory.
	VotesFrom *time.Time `json:"votesFrom,omitempty"`
}

// shardView is a shard that takes no claims for the moment.
type shardView struct {
	Shard int       `json:"shard"`
	Since time.Time `json:"since"`
	Error string    `json:"error"`
}

// listsView is how the lists stand that the units lie in.
type listsView struct {
	On        int   `json:"on"`        // that give units
	Off       int   `json:"off"`       // that give none now
	Undrained int64 `json:"undrained"` // claims that they gave and the ledger lacks
}

// with counts the list of one more shard, if it has one. No lists: nil.
func (v *listsView) with(shard executor.ShardStatus) *listsView {
	if !shard.Listed {
		return v
	}
	if v == nil {
		v = new(listsView)
	}
	if shard.ListOn {
		v.On++
	} else {
		v.Off++
	}
	v.Undrained += shard.Undrained
	return v
}

func (s *Server) getSale(w http.ResponseWriter, sale *sale) {
	status := sale.Status()
	if status.Away != "" {
		writeOutcome(w, status.Away)
		return
	}
	view := saleView{
		Sale:         sale.name,
		Phase:        status.Phase,
		PerUserLimit: status.PerUser,
		OpensAt:      utc(status.OpensAt),
		ClosesAt:     utc(status.ClosesAt),
		Generation:   status.Generation,
		ServerTime:   s.now().Wall.UTC(),
		Packets:      sale.packetsView(),
		Nodes:        make([]nodeView, 0, len(status.Nodes)),
		Shards:       []shardView{},
	}
	for _, n := range status.Nodes {
		view.Nodes = append(view.Nodes, nodeView{n.Name, n.Up, moment(n.Since), n.Error, utc(n.VotesFrom)})
	}
	for _, shard := range status.Shards {
		view.Lists = view.Lists.with(shard)
		view.Stock += shard.Limit
		view.Available += shard.Available
		view.Held += shard.Held
		view.Sold += shard.Sold
		view.InFlight += shard.InFlight
		if stall := shard.Stall; stall != nil {
			view.Shards = append(view.Shards, shardView{shard.Shard, moment(stall.Since), stall.Error})
		}
	}
	writeJSON(w, http.StatusOK, view)
}

// userView is the answer to GET /v1/sales/{sale}/users/{user}.
type userView struct {
	Sale   string          `json:"sale"`
	User   string          `json:"user"`
	Claims json.RawMessage `json:"claims"`
}

func (s *Server) getUser(w http.ResponseWriter, sale *sale, segment string) {
	user, err := url.PathUnescape(segment)
	if err != nil {
		writeBadRequest(w, &fault{http.StatusBadRequest, "user: the path is not escaped properly"})
		return
	}
	if f := checkUser(user); f != nil {
		writeBadRequest(w, f)
		return
	}
	before := sale.Packets()
	claims, outcome := sale.User(user)
	if outcome != "" {
		writeOutcome(w, outcome)
		return
	}
	writeJSON(w, http.StatusOK, userView{sale.name, user, appendClaims(nil, sale.name, claims, sale.packetsSince(before))})
}

// writeJSON answers with v, whose encoding cannot fail. Views change from one
// moment to the next, so nothing between here and the client may keep them.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	h := w.Header()
	h["Content-Type"] = typeJSON
	h["Cache-Control"] = noStore
	w.WriteHeader(status)
	w.Write(body)
}

// moment is a time as people read it: nobody asks for more than milliseconds.
func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func utc(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
