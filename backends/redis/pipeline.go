package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"salectl/backends/quorum"
)

const (
	// pipelinedAfter is how many calls a process makes by the pool before it has a pipeline:
	// a command that takes one lock needs no connection more.
	pipelinedAfter = 8

	// A pipeline with so much unanswered takes nothing more. What is written to it never
	// fills the buffers of the system, so that no writer waits for the server.
	pipelinedCalls = 64
	pipelinedBytes = 16 << 10
)

// pipeline is one connection to a server on which ballots and releases go out as they
// come, each written by whoever has it to send, and are answered in order. It saves
// the goroutine that waits for each call, and most of what the pool does for one: on
// a machine that is not idle, those take as long as the server does.
//
// It is an addition: without one, because it cannot be had or has broken, calls go
// by the pool, and it is they that say what is wrong with the server.
type pipeline struct {
	node *Node
	conn net.Conn

	mu         sync.Mutex
	out, spare []byte // not yet written; what is being written or was
	writing    bool   // somebody writes, and goes on until out is empty
	unanswered []sent // the oldest first
	bytes      int    // of them
	timer      *time.Timer
	timing     bool  // the timer is set
	ended      error // why nothing more is sent

	own map[string]ownVote // by marker; without a digest there is none yet, or none to be had
}

// sent is a call that was written, or will be.
type sent struct {
	call    quorum.Call
	deliver func(quorum.Reply)
	until   time.Time // when it is not waited for any longer
	sha     string    // of the script
	bytes   int
}

// pipelining is the pipeline of a node, or how soon it gets one.
type pipelining struct {
	mu       sync.Mutex
	pipeline *pipeline // nil: there is none
	calls    int       // by the pool since there was one
}

// Send is quorum.Sender's.
func (n *Node) Send(c quorum.Call, deliver func(quorum.Reply)) bool {
	w := n.pipelined()
	return w != nil && w.send(c, deliver)
}

// pipelined returns the pipeline, if there is one, and sees to it that there will be.
func (n *Node) pipelined() *pipeline {
	n.pipelining.mu.Lock()
	defer n.pipelining.mu.Unlock()
	if n.pipelining.pipeline == nil {
		n.pipelining.calls++
		if n.pipelining.calls == pipelinedAfter {
			n.begin(n.runPipeline)
		}
	}
	return n.pipelining.pipeline
}

// runPipeline makes a pipeline and reads what it is answered, until it breaks.
func (n *Node) runPipeline() {
	w, err := n.openPipeline()
	set := func(w *pipeline) {
		n.pipelining.mu.Lock()
		defer n.pipelining.mu.Unlock()
		n.pipelining.pipeline, n.pipelining.calls = w, 0
	}
	if err == nil {
		stop := context.AfterFunc(n.life, func() { w.end(ErrClosed) })
		defer stop()
		set(w)
		w.read()
	}
	set(nil)
	if err == nil {
		w.fail()
	}
}

// openPipeline connects and logs in.
func (n *Node) openPipeline() (*pipeline, error) {
	ctx, cancel := context.WithTimeout(n.life, patience)
	defer cancel()
	conn, err := n.dialer.connect(ctx, "tcp", n.address)
	if err != nil {
		return nil, err
	}
	w := &pipeline{node: n, conn: conn}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	words := []any{"HELLO", 2}
	if n.secret != "" {
		words = append(words, "AUTH", n.username, n.secret)
	}
	_, err = conn.Write(appendCommand(nil, words...))
	var said any
	if err == nil {
		said, err = readReply(bufio.NewReader(conn)) // the server says nothing more until it is asked
	}
	if refusal, refused := said.(error); refused && err == nil {
		err = refusal
	}
	if !stop() || err != nil {
		conn.Close()
		return nil, errors.Join(err, ctx.Err())
	}
	return w, nil
}

// send begins a call; false: it was not.
func (w *pipeline) send(c quorum.Call, deliver func(quorum.Reply)) bool {
	var sha string
	var keys []string
	var args []any
	switch {
	case c.Vote != nil:
		own := w.ownVote(c.Vote.Marker)
		if sha = own.sha; sha == "" {
			sha = voteScript.Hash()
		}
		var err error
		if keys, args, err = w.node.ballot(*c.Vote, own.run); err != nil {
			return false
		}
	case c.Meet != nil:
		return false
	default:
		sha = releaseScript.Hash()
		keys, args = releaseOf(c.Release)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended != nil || len(w.unanswered) >= pipelinedCalls {
		return false
	}
	before := len(w.out)
	w.out = appendScript(w.out, sha, keys, args)
	size := len(w.out) - before
	if w.bytes+size > pipelinedBytes {
		w.out = w.out[:before]
		return false
	}
	w.bytes += size
	w.unanswered = append(w.unanswered, sent{c, deliver, time.Now().Add(c.Timeout), sha, size})
	if !w.timing {
		w.timing = true
		if w.timer == nil {
			w.timer = time.AfterFunc(c.Timeout, w.timed)
		} else {
			w.timer.Reset(c.Timeout)
		}
	}
	w.flush()
	return true
}

// flush writes what there is to write, unless somebody else does. mu is held, but
// not while it writes.
func (w *pipeline) flush() {
	if w.writing {
		return
	}
	w.writing = true
	for len(w.out) > 0 && w.ended == nil {
		w.out, w.spare = w.spare[:0], w.out
		w.mu.Unlock()
		_, err := w.conn.Write(w.spare)
		w.mu.Lock()
		if err != nil {
			w.close(err)
		}
	}
	w.writing = false
}

// timed ends the pipeline if a call has had its time: what is behind it waits for the
// same server.
func (w *pipeline) timed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timing = false
	if len(w.unanswered) == 0 || w.ended != nil {
		return
	}
	now, first := time.Now(), w.unanswered[0].until
	for _, s := range w.unanswered {
		if s.until.Before(first) {
			first = s.until
		}
	}
	if !now.Before(first) {
		w.close(context.DeadlineExceeded)
		return
	}
	w.timing = true
	w.timer.Reset(first.Sub(now))
}

// end ends the pipeline, for a reason.
func (w *pipeline) end(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.close(why)
}

// close is end for who has mu. The reader tells the others.
func (w *pipeline) close(why error) {
	if w.ended == nil {
		w.ended = why
		w.conn.Close()
	}
}

// read delivers what the server answers, until the connection ends.
func (w *pipeline) read() {
	r := bufio.NewReader(w.conn)
	for {
		said, err := readReply(r)
		if err != nil {
			w.end(err)
			return
		}
		w.mu.Lock()
		if len(w.unanswered) == 0 {
			w.close(errAnswer)
			w.mu.Unlock()
			return
		}
		s := w.unanswered[0]
		w.unanswered[0] = sent{}
		w.unanswered = w.unanswered[1:]
		w.bytes -= s.bytes
		w.mu.Unlock()
		w.answered(s, said)
	}
}

// fail answers what was not answered when the pipeline ended.
func (w *pipeline) fail() {
	w.mu.Lock()
	left := w.unanswered
	w.unanswered = nil
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	for _, s := range left {
		s.deliver(quorum.Reply{Node: s.call.Node, Seq: s.call.Seq, Err: w.node.explain(w.ended)})
	}
}

// answered delivers the answer to a call.
func (w *pipeline) answered(s sent, said any) {
	r := quorum.Reply{Node: s.call.Node, Seq: s.call.Seq}
	switch said := said.(type) {
	case replyError:
		if strings.HasPrefix(string(said), "NOSCRIPT") {
			if s.call.Vote != nil {
				w.forget(s.call.Vote.Marker, s.sha)
			}
			w.sendSource(s)
			return
		}
		r.Err = said
	case []any:
		if s.call.Vote == nil {
			r.Err = errAnswer
			break
		}
		a := answer{items: said}
		r.Ballot = countOf(&a, s.call.Vote.Asks)
		if r.Err = a.end(); r.Err != nil {
			r.Ballot = quorum.BallotReply{}
		}
	case int64:
		if s.call.Vote != nil {
			r.Err = errAnswer
		}
	default:
		r.Err = errAnswer
	}
	r.Err = w.node.explain(r.Err)
	s.deliver(r)
}

// sendSource makes a call by the pool that a server has not done for want of the
// script: that sends the source.
func (w *pipeline) sendSource(s sent) {
	begun := w.node.begin(func() {
		ctx, cancel := context.WithDeadline(w.node.life, s.until)
		defer cancel()
		s.deliver(s.call.Do(ctx, w.node))
	})
	if !begun {
		s.deliver(quorum.Reply{Node: s.call.Node, Seq: s.call.Seq, Err: w.node.explain(ErrClosed)})
	}
}

// appendScript appends the command that runs a script which the server has.
func appendScript(b []byte, sha string, keys []string, args []any) []byte {
	b = appendHead(b, '*', 3+len(keys)+len(args))
	b = appendWord(b, "EVALSHA")
	b = appendWord(b, sha)
	b = appendNumber(b, int64(len(keys)))
	for _, key := range keys {
		b = appendWord(b, key)
	}
	return appendArgs(b, args)
}

// appendCommand appends a command.
func appendCommand(b []byte, words ...any) []byte {
	return appendArgs(appendHead(b, '*', len(words)), words)
}

func appendArgs(b []byte, args []any) []byte {
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			b = appendWord(b, arg)
		case int:
			b = appendNumber(b, int64(arg))
		case int64:
			b = appendNumber(b, arg)
		default:
			panic(fmt.Sprintf("a script has no arguments of the type %T", arg))
		}
	}
	return b
}

func appendHead(b []byte, kind byte, n int) []byte {
	b = append(b, kind)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, "\r\n"...)
}

func appendWord(b []byte, word string) []byte {
	b = appendHead(b, '$', len(word))
	b = append(b, word...)
	return append(b, "\r\n"...)
}

func appendNumber(b []byte, n int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	b = appendHead(b, '$', len(text))
	b = append(b, text...)
	return append(b, "\r\n"...)
}

// replyError is an error that a server answers.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError makes it a goredis.Error.
func (replyError) RedisError() {}

var _ goredis.Error = replyError("")

// longest is what no answer to a ballot or a release comes up to.
const longest = 64 << 20

// readReply reads one reply: a string, an int64, nil, a replyError, or a list of them.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, errAnswer
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return string(text), nil
	case '-':
		return replyError(text), nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case err != nil || kind != ':' && n > longest:
		return nil, errAnswer
	case kind == ':':
		return n, nil
	case kind != '$' && kind != '*':
		return nil, errAnswer
	case n < 0:
		return nil, nil
	case kind == '$':
		word := make([]byte, n+2)
		if _, err := io.ReadFull(r, word); err != nil {
			return nil, err
		}
		return string(word[:n]), nil
	}
	items := make([]any, 0, min(n, 1024))
	for range n {
		item, err := readReply(r)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}
