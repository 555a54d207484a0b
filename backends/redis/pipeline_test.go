package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"salectl/backends/backendtest"
	"salectl/backends/quorum"
	"salectl/internal/wait"
	"salectl/services"
)

// pipelinedNode votes by its pipeline, as Hold and Locks have it vote, and by the pool only
// while it has no pipeline.
type pipelinedNode struct {
	*Node
	t *testing.T
}

func (n pipelinedNode) Vote(ctx context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	if ctx.Err() != nil {
		return quorum.BallotReply{}, ctx.Err()
	}
	timeout := long
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	replies := make(chan quorum.Reply, 1)
	if !n.Send(quorum.Call{Seq: 7, Vote: &b, Timeout: timeout}, func(r quorum.Reply) { replies <- r }) {
		return n.Node.Vote(ctx, b)
	}
	select {
	case r := <-replies:
		if r.Seq != 7 {
			n.t.Errorf("the reply to call 7 is %+v", r)
		}
		return r.Ballot, r.Err
	case <-ctx.Done():
		return quorum.BallotReply{}, ctx.Err()
	}
}

// mustPipeline opens a handle that has a pipeline.
func mustPipeline(t *testing.T, server *services.Redis, o Options) pipelinedNode {
	t.Helper()
	o.Address = server.Addr()
	n := mustOpen(t, o)
	awaitPipeline(t, n)
	return pipelinedNode{n, t}
}

// awaitPipeline waits until a node has a pipeline.
func awaitPipeline(t *testing.T, n *Node) {
	t.Helper()
	wait.Until(t, "a pipeline", func() bool { return n.pipelined() != nil })
}

// The calls that go by a pipeline keep the promises that all do.
func TestPipelinedNode(t *testing.T) {
	t.Parallel()
	backendtest.TestNode(t, func(t *testing.T) (a, b quorum.Node, hands backendtest.Hands) {
		t.Parallel()
		server := mustStart(t, services.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
		handles := []pipelinedNode{mustPipeline(t, server, Options{}), mustPipeline(t, server, Options{})}
		restart := func() {
			mustRestart(t, server)
			for _, n := range handles {
				awaitPipeline(t, n.Node)
			}
		}
		return handles[0], handles[1], backendtest.Hands{
			Lose:    func() { do(t, server, "FLUSHALL"); restart() },
			Restart: restart,
			Fill:    func(room string) { fillRoom(t, server, room) },
		}
	})
}

// send sends a call by the pipeline, and returns where its reply comes.
func (n pipelinedNode) send(c quorum.Call) <-chan quorum.Reply {
	n.t.Helper()
	replies := make(chan quorum.Reply, 1)
	if !n.Send(c, func(r quorum.Reply) { replies <- r }) {
		n.t.Fatal("the pipeline does not take the call")
	}
	return replies
}

func voteFor(token, key string, timeout time.Duration) quorum.Call {
	return quorum.Call{Timeout: timeout, Vote: &quorum.Ballot{Marker: marker, TTL: quorum.MaxTTL,
		Asks: []quorum.Ask{{Key: key, Token: token}}}}
}

func TestPipelineReleases(t *testing.T) {
	t.Parallel()
	server := mustStart(t, services.RedisOptions{})
	n := mustPipeline(t, server, Options{})
	mustMark(t, n)
	mustVote(t, n, "one", "salectl:key")
	do(t, server, "SCRIPT", "FLUSH") // a server that does not know a script gets its source
	release := quorum.Call{Timeout: long, Release: []quorum.Ask{{Key: "salectl:key", Token: "one"}}}
	if r := <-n.send(release); r.Err != nil {
		t.Error(r.Err)
	}
	if left := pttl(t, server, "salectl:key"); left != -2 {
		t.Errorf("the key that was released has %d ms", left)
	}
	do(t, server, "SCRIPT", "FLUSH")
	if r := <-n.send(voteFor("two", "salectl:key", long)); r.Err != nil || !r.Ballot.Yes[0] {
		t.Errorf("the vote is %+v; want a yes", r)
	}
	do(t, server, "HSET", "salectl:taken", "another", "program's")
	if r := <-n.send(voteFor("two", "salectl:taken", long)); !errors.Is(r.Err, ErrForeign) {
		t.Errorf("a vote for a key that is no lease: %v, want ErrForeign", r.Err)
	}
	if n.Send(voteFor("", "salectl:key", long), nil) {
		t.Error("the pipeline takes a ballot that the node refuses")
	}
}

// Where the server is silent each call gets its error, and the calls after it go by
// the pool until the server answers again.
func TestPipelineToSilentServer(t *testing.T) {
	t.Parallel()
	server := mustStart(t, services.RedisOptions{})
	n := mustPipeline(t, server, Options{})
	mustMark(t, n)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	first, second := n.send(voteFor("one", "salectl:key", 50*time.Millisecond)), n.send(voteFor("one", "salectl:other", long))
	for _, replies := range []<-chan quorum.Reply{first, second} {
		if r := <-replies; !errors.Is(r.Err, ErrSilent) {
			t.Errorf("a vote of a server that is silent: %+v; want ErrSilent", r)
		}
	}
	if n.Send(voteFor("one", "salectl:key", long), nil) {
		t.Error("a pipeline to a server that was silent takes calls")
	}
	if err := server.Continue(); err != nil {
		t.Fatal(err)
	}
	awaitPipeline(t, n.Node)
	if r := <-n.send(voteFor("one", "salectl:key", long)); r.Err != nil {
		t.Error(r.Err)
	}
}

// No writer waits for a server that reads nothing.
func TestPipelineIsFull(t *testing.T) {
	t.Parallel()
	server := mustStart(t, services.RedisOptions{})
	for name, note := range map[string]string{"calls": "", "bytes": strings.Repeat("x", pipelinedBytes/4)} {
		n := mustPipeline(t, server, Options{})
		mustMark(t, n)
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		taken := 0
		replies := make(chan quorum.Reply, 2*pipelinedCalls)
		for range 2 * pipelinedCalls {
			c := voteFor("one", "salectl:key", long)
			c.Vote.Asks[0].Note = note
			if n.Send(c, func(r quorum.Reply) { replies <- r }) {
				taken++
			}
		}
		if want := map[string]int{"calls": pipelinedCalls, "bytes": 3}[name]; taken != want {
			t.Errorf("%s: a pipeline of which nothing is answered takes %d; want %d", name, taken, want)
		}
		if err := server.Continue(); err != nil {
			t.Fatal(err)
		}
		for range taken {
			if r := <-replies; r.Err != nil {
				t.Errorf("%s: %v", name, r.Err)
			}
		}
		for range 2 * pipelinedCalls { // it has room again, and keeps it
			c := voteFor("one", "salectl:key", long)
			c.Vote.Asks[0].Note = note
			if r := <-n.send(c); r.Err != nil {
				t.Fatalf("%s: %v", name, r.Err)
			}
		}
	}
}

// Whoever waits for an answer learns that the connection or the handle is gone.
func TestPipelineEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(*services.Redis, *Node) error
		want error
	}{
		"killed": {func(server *services.Redis, _ *Node) error { return server.Kill() }, ErrHungUp},
		"closed": {func(_ *services.Redis, n *Node) error { return n.Close() }, ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mustStart(t, services.RedisOptions{})
			n := mustPipeline(t, server, Options{})
			if err := server.Pause(); err != nil {
				t.Fatal(err)
			}
			replies := n.send(voteFor("one", "salectl:key", long))
			if err := test.end(server, n.Node); err != nil {
				t.Fatal(err)
			}
			if r := <-replies; !errors.Is(r.Err, test.want) {
				t.Errorf("the vote under way: %v, want %v", r.Err, test.want)
			}
			if n.Send(voteFor("one", "salectl:key", long), nil) {
				t.Error("a pipeline that has ended takes calls")
			}
		})
	}
}

// A pipeline logs in as the pool does. Without, it is not made.
func TestPipelineLogsIn(t *testing.T) {
	t.Parallel()
	server := mustStart(t, services.RedisOptions{})
	do(t, server, append([]any{"ACL", "SETUSER", "locks", "on", ">secret"}, rights()...)...)
	n := mustPipeline(t, server, Options{Username: "locks", Password: "secret"})
	mustMark(t, n)
	if r := <-n.send(voteFor("one", "salectl:key", long)); r.Err != nil || !r.Ballot.Yes[0] {
		t.Errorf("the vote is %+v; want a yes", r)
	}
	mustOwn(t, n) // which takes no further right
	stranger := mustOpen(t, Options{Address: server.Addr(), Username: "locks", Password: "wrong"})
	if w, err := stranger.openPipeline(); err == nil {
		w.end(ErrClosed)
		t.Error("a server has let in who does not know the password")
	}
}

func rights() (words []any) {
	for _, right := range strings.Fields(Rights) {
		words = append(words, right)
	}
	return words
}

func TestReadReply(t *testing.T) {
	for said, want := range map[string]any{
		"+OK\r\n":                       "OK",
		"-ERR no\r\n":                   replyError("ERR no"),
		":-12\r\n":                      int64(-12),
		"$5\r\na\r\nbc\r\n":             "a\r\nbc",
		"$-1\r\n":                       nil,
		"*-1\r\n":                       nil,
		"*0\r\n":                        []any{},
		"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n": []any{int64(1), []any{"x"}},
	} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(said))); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q reads as %#v, %v; want %#v", said, got, err, want)
		}
		for cut := range said {
			got, err := readReply(bufio.NewReader(strings.NewReader(said[:cut])))
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q reads as %#v, %v; want that it is cut short", said[:cut], got, err)
			}
		}
	}
	for _, said := range []string{"\r\n", "+OK\n", "HTTP/1.1 400\r\n", ":one\r\n", "$x\r\n", fmt.Sprintf("$%d\r\n", longest+1),
		fmt.Sprintf("*%d\r\n", longest+1), "*1\r\n?\r\n", "%1\r\n"} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(said))); err != errAnswer {
			t.Errorf("%q reads as %#v, %v; want errAnswer", said, got, err)
		}
	}
}
