package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"

	"salectl/backends/quorum"
)

// Looking up the run id takes a server a third of the time of a vote. Votes by a
// pipeline do without, and are as sure: behind a proxy a connection may outlive the
// server's process, but the scripts that the server has do not. From Redis 7.0 on they
// are in no file, go to no replica, and are gone when the process ends.
//
// So a process that votes often gives the server a copy of the vote script under a new
// random name, which is a comment in the script. It does so by one EVAL, which is never
// repeated and tells in which run it was done. The marker says both to others. Whoever
// calls the copy by its digest, and is not told NOSCRIPT, is answered in that run, so
// that the copy may take the run that it is told for the server's. The model "runs"
// has what goes wrong otherwise.
//
// A server has one copy for each run and marker, and a few where processes begin at
// once or somebody has flushed its scripts. A copy for each process would fill its memory.

// ownVote is the vote script that one run of a server has.
// Without a digest there is none, and the server is to be asked for its run.
type ownVote struct{ sha, run string }

// ownSince is the first version of Redis whose scripts end with the process.
const ownSince = 0x00070000

// ownField is the field of a marker that names the copy. Another version of the
// program, whose script is another, has a field of its own.
var ownField = "own_" + voteScript.Hash()[:12]

// ownVote returns the copy that the server has for a marker, and sees to it that there
// will be one.
func (w *pipeline) ownVote(marker string) ownVote {
	w.mu.Lock()
	defer w.mu.Unlock()
	own, known := w.own[marker]
	if !known {
		w.find(marker, "")
	}
	return own
}

// find looks for the copy in the background. mu is held.
func (w *pipeline) find(marker, gone string) {
	if w.own == nil {
		w.own = make(map[string]ownVote)
	}
	w.own[marker] = ownVote{}
	w.node.begin(func() {
		if own, err := w.node.findOwn(marker, gone); err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.own[marker] = own
		}
	})
}

// forget notes that the server does not have a script. If that was the copy, another
// is looked for.
func (w *pipeline) forget(marker, sha string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.own[marker].sha == sha {
		w.find(marker, sha)
	}
}

// findOwn returns the copy that the server has in this run, and gives it one if it has
// none, or one that is gone: somebody has flushed its scripts.
func (n *Node) findOwn(marker, gone string) (own ownVote, err error) {
	ctx, cancel := context.WithTimeout(n.life, patience)
	defer cancel()
	a, err := n.run(ctx, ownScript, []string{marker}, ownField)
	version, run, name := next[int64](&a), a.text(), a.text()
	if err == nil {
		err = a.end()
	}
	if err != nil || version < ownSince {
		return ownVote{}, err
	}
	if name == "" || voteNamed(name, run).sha == gone {
		if run, name, err = n.giveOwn(ctx, marker); err != nil {
			return ownVote{}, err
		}
	}
	return voteNamed(name, run), nil
}

// giveOwn gives the server a copy under a new name, and returns the run in which that
// was done. If that is not answered, nobody knows where the copy is, and nobody uses it.
func (n *Node) giveOwn(ctx context.Context, marker string) (run, name string, err error) {
	name = quorum.RandomToken()
	items, err := n.client.Eval(ctx, namedVote(name), []string{marker}, milliseconds(quorum.MinTTL),
		milliseconds(quorum.MaxTTL), milliseconds(markerKept), "", ownField, name).Slice()
	a := answer{items: items}
	if run = a.text(); err == nil {
		err = a.end()
	}
	return run, name, err
}

func voteNamed(name, run string) ownVote {
	return ownVote{goredis.NewScript(namedVote(name)).Hash(), run}
}

// namedVote is the vote script under a name.
func namedVote(name string) string { return "-- " + name + "\n" + text(voteParts...) }
