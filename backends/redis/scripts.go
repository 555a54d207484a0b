package redis

import (
	"context"
	"embed"
	"errors"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

//go:embed *.lua
var sources embed.FS

var (
	infoScript       = script("node", "info")
	markScript       = script("node", "mark")
	readMarkerScript = script("node", "read_marker")
	voteScript       = script("node", "lease", "vote")
	releaseScript    = script("lease", "release")
	listScript       = script("lease", "list")
	announceScript   = script("node", "announce")

	grabScript    = script("node", "lists", "grab")
	runScript     = script("node", "lists", "run")
	stopScript    = script("node", "lists", "stop")
	putScript     = script("node", "lists", "put")
	startScript   = script("node", "lists", "start")
	takeScript    = script("node", "lists", "take")
	addScript     = script("node", "lists", "add")
	readScript    = script("node", "lists", "read")
	inspectScript = script("node", "lists", "inspect")
)

// script returns a script made of some files, concatenated.
func script(names ...string) *goredis.Script {
	var source strings.Builder
	for _, name := range names {
		text, err := sources.ReadFile(name + ".lua")
		if err != nil {
			panic(err) // the program was built without the file
		}
		source.Write(text)
	}
	return goredis.NewScript(source.String())
}

// runAndRead runs one script, and reads its answer completely.
func runAndRead[T any](ctx context.Context, n *Node, script *goredis.Script, keys []string, args []any, read func(*answer) (T, error)) (T, error) {
	return await(ctx, n, func(ctx context.Context) (value T, err error) {
		a, err := n.run(ctx, script, keys, args...)
		if err != nil {
			return value, err
		}
		if value, err = read(&a); err == nil {
			err = a.end()
		}
		return value, err
	})
}

// run runs a script that returns a list. A server that does not have the script reports that
// without running it, and then gets the source. If ctx ends in between, nothing was done.
func (n *Node) run(ctx context.Context, script *goredis.Script, keys []string, args ...any) (answer, error) {
	items, err := script.Run(ctx, n.client, keys, args...).Slice()
	return answer{items: items}, err
}

// count runs one script that returns a number.
func (n *Node) count(ctx context.Context, script *goredis.Script, keys []string, args ...any) (int, error) {
	return await(ctx, n, func(ctx context.Context) (int, error) {
		return script.Run(ctx, n.client, keys, args...).Int()
	})
}

// answer is the unread rest of a script's list. An unexpected item sets bad, so that callers
// check for errors once, at the end.
type answer struct {
	items []any
	bad   bool
}

// errAnswer is the error of a server whose scripts return another form than Redis's.
var errAnswer = errors.New("the server's answer does not have the form of the script's result; is it a Redis?")

// end returns an error unless all items were read and had the expected form.
func (a *answer) end() error {
	if a.bad || len(a.items) > 0 {
		return errAnswer
	}
	return nil
}

// next reads the next item.
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

// held reads a lease's value, which is token and note, and the time that it has left. Redis counts
// whole milliseconds, and a lease with 0 left still exists.
func (a *answer) held() (token, note string, left time.Duration) {
	token, note, _ = strings.Cut(a.text(), " ")
	return token, note, time.Duration(max(1, next[int64](a))) * time.Millisecond
}
