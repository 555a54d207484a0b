package redis

import (
	"context"
	_ "embed"
	"errors"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

var (
	//go:embed node.lua
	nodeSource string
	//go:embed lease.lua
	leaseSource string
	//go:embed info.lua
	infoSource string
	//go:embed mark.lua
	markSource string
	//go:embed read_marker.lua
	readMarkerSource string
	//go:embed vote.lua
	voteSource string
	//go:embed release.lua
	releaseSource string
	//go:embed list.lua
	listSource string

	//go:embed lists.lua
	listsSource string
	//go:embed grab.lua
	grabSource string
	//go:embed run.lua
	runSource string
	//go:embed stop.lua
	stopSource string
	//go:embed put.lua
	putSource string
	//go:embed start.lua
	startSource string
	//go:embed take.lua
	takeSource string
	//go:embed add.lua
	addSource string
	//go:embed read.lua
	readSource string
	//go:embed inspect.lua
	inspectSource string
)

var (
	infoScript       = goredis.NewScript(nodeSource + infoSource)
	markScript       = goredis.NewScript(nodeSource + markSource)
	readMarkerScript = goredis.NewScript(nodeSource + readMarkerSource)
	voteScript       = goredis.NewScript(nodeSource + leaseSource + voteSource)
	releaseScript    = goredis.NewScript(leaseSource + releaseSource)
	listScript       = goredis.NewScript(leaseSource + listSource)

	grabScript    = goredis.NewScript(nodeSource + listsSource + grabSource)
	runScript     = goredis.NewScript(nodeSource + listsSource + runSource)
	stopScript    = goredis.NewScript(nodeSource + listsSource + stopSource)
	putScript     = goredis.NewScript(nodeSource + listsSource + putSource)
	startScript   = goredis.NewScript(nodeSource + listsSource + startSource)
	takeScript    = goredis.NewScript(nodeSource + listsSource + takeSource)
	addScript     = goredis.NewScript(nodeSource + listsSource + addSource)
	readScript    = goredis.NewScript(nodeSource + listsSource + readSource)
	inspectScript = goredis.NewScript(nodeSource + listsSource + inspectSource)
)

// run runs a script that answers with a list. A server that does not have the
// script yet says so without having run it, and is then sent its source; if
// ctx ends between the two, nothing was done.
func (n *Node) run(ctx context.Context, script *goredis.Script, keys []string, args ...any) (answer, error) {
	items, err := script.Run(ctx, n.client, keys, args...).Slice()
	return answer{items: items}, err
}

// count runs a script that answers with a number.
func (n *Node) count(ctx context.Context, script *goredis.Script, keys []string, args ...any) (int, error) {
	return script.Run(ctx, n.client, keys, args...).Int()
}

// answer is what is left to read of a script's list. What a script of ours
// never answers makes it bad from there on, instead of being an error of each
// step.
type answer struct {
	items []any
	bad   bool
}

// errAnswer is what a server says that runs scripts otherwise than Redis.
var errAnswer = errors.New("the server's answer does not have the form that the script gives it; is it a Redis?")

// end returns an error unless all was read, and was as it had to be.
func (a *answer) end() error {
	if a.bad || len(a.items) > 0 {
		return errAnswer
	}
	return nil
}

// next takes the next item of a list.
func next[T any](a *answer) (item T) {
	if len(a.items) == 0 {
		a.bad = true
		return item
	}
	item, ok := a.items[0].(T)
	a.bad = a.bad || !ok
	a.items = a.items[1:]
	return item
}

func (a *answer) text() string { return next[string](a) }

func (a *answer) time() time.Time { return time.UnixMicro(next[int64](a)) }

// left takes how long a lease has. Redis counts whole milliseconds, and a
// lease with 0 of them is there still.
func (a *answer) left() time.Duration {
	return time.Duration(max(1, next[int64](a))) * time.Millisecond
}

// held takes a lease's value, its token and note, and how long it has.
func (a *answer) held() (token, note string, left time.Duration) {
	token, note, _ = strings.Cut(a.text(), " ")
	return token, note, a.left()
}
