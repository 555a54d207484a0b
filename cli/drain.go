package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/planner"
)

type drainOptions struct {
	inquiry
	sales []string // names; empty: all sales of the process
	undo  bool
}

const (
	// defaultOperating bounds a drain: a few shards move in well under a second, many of a
	// large sale take longer.
	defaultOperating = time.Minute
	// operatingEvery is the interval of its queries.
	operatingEvery = 100 * time.Millisecond
)

func (p *program) drainCommand() *urfave.Command {
	return &urfave.Command{
		Name: "drain", Category: groupSale, Usage: "move all shards off a server process",
		Description: "The process hands its shards of the sales over to other processes, forwards the requests of " +
			"buyers to them, and takes no shard until --undo or a restart. The command waits until the " +
			"process owns no shard and another one may own them. Exit codes: 0 done, 1 no such sale, 3 the process " +
			"is shutting down, 7 not done in time: the process keeps the remaining shards until another one takes them.",
		Flags: append(append([]urfave.Flag{
			required(adminFlag()),
			saleFlag(),
			onFlag("undo", "let the process take its share of the shards again"),
			tokenFlag(),
		}, tlsFlags()...), boundFlag(defaultOperating), jsonFlag()),
		Action: action(func(f *flags) drainOptions {
			return drainOptions{inquiry: inquiry{
				secrets: f.secrets(), server: f.server("admin"), flag: "admin",
				timeout: f.duration("timeout", defaultOperating), json: f.on("json"),
			}, sales: f.names(), undo: f.on("undo")}
		}, p.drain),
	}
}

// drainReply is the output of drain --json.
type drainReply struct {
	api.Share
	Done bool `json:"done"`
}

func (p *program) drain(ctx context.Context, o drainOptions) error {
	bounded, cancel := context.WithTimeoutCause(ctx, o.timeout, timedOut(o.timeout))
	defer cancel()
	sales := o.sales
	if len(sales) == 0 {
		process, err := o.connect(nil)
		if err != nil {
			return err
		}
		defer process.Close()
		if sales, err = process.SalesAt(bounded); err != nil {
			return process.explain(err)
		}
	}
	for _, o.sale = range sales {
		if err := p.drainSale(bounded, o.inquiry, o.undo); err != nil {
			return err
		}
	}
	return nil
}

// drainSale waits until a process owns nothing of a sale, or with undo its full share.
func (p *program) drainSale(ctx context.Context, o inquiry, undo bool) error {
	process, err := o.connect(nil)
	if err != nil {
		return err
	}
	defer process.Close()
	var share api.Share
	err = p.retryStandby(ctx, process, &share, func(ctx context.Context) (api.Share, error) { return process.Drain(ctx, undo) })
	var doneAt time.Time // begin of the present state of completion; zero: not complete
	for reported, lastAt := -1, time.Now(); err == nil; err = p.retryStandby(ctx, process, &share, process.Share) {
		done := share.Shards == 0 && (share.HasTakers || share.Unready == "")
		if undo {
			done = share.Shards >= share.Assigned
		}
		switch {
		case !done:
			doneAt = time.Time{}
		case doneAt.IsZero():
			doneAt = time.Now()
		}
		switch {
		case share.State == api.ProcessDraining:
			return &planner.Refusal{Reason: process.server.Host + " is shutting down"}
		case (share.State == api.ProcessStandby) == undo:
			return &planner.Refusal{Reason: fmt.Sprintf("another operator has meanwhile set %s to %s", process.server.Host, share.State)}
		case done && (undo || share.Unready == "" || time.Since(doneAt) > passesWithin):
			p.drained(process, share, undo)
			return nil
		case !done && share.Shards != reported && (reported < 0 || time.Since(lastAt) > time.Second):
			p.logf("%s", drainText(share, undo, process.server.Host))
			reported, lastAt = share.Shards, time.Now()
		}
		if api.Sleep(ctx, operatingEvery) != nil {
			err = context.Cause(ctx)
			break
		}
	}
	if ctx.Err() != nil && !doneAt.IsZero() {
		p.drained(process, share, undo)
		return nil
	}
	if share.Sale == "" || ctx.Err() == nil {
		return err
	}
	if process.json {
		p.emit(drainReply{share, false})
	}
	err = fmt.Errorf("%w: %s", context.Cause(ctx), drainText(share, undo, process.server.Host))
	if !undo && !share.HasTakers {
		return advised{what: err.Error(), err: err,
			remedy: process.command("Start another 'salectl serve', or let this process own shards again: salectl drain --undo %s")}
	}
	return err
}

// retryStandby repeats a request while the process does not serve the sale yet. It stores the
// answer in share.
func (p *program) retryStandby(ctx context.Context, process *connection, share *api.Share, request func(context.Context) (api.Share, error)) error {
	reported := ""
	for {
		got, err := request(ctx)
		problem, refused := errors.AsType[*api.Problem](err)
		switch {
		case err == nil:
			*share = got
			return nil
		case !refused || problem.Outcome != api.Standby && problem.Outcome != api.Draining:
			return process.explain(err)
		case problem.Outcome == api.Draining:
			return &planner.Refusal{Reason: process.server.Host + " is shutting down"}
		case problem.Detail != reported:
			reported = problem.Detail
			p.logf("%s: %s; retrying.", process.server.Host, reported)
		}
		if api.Sleep(ctx, operatingEvery) != nil {
			return fmt.Errorf("%w: %s: %s", context.Cause(ctx), process.server.Host, reported)
		}
	}
}

// passesWithin is the time within which a process that has released its shards can forward
// requests: their new owners notify it within milliseconds.
const passesWithin = 2 * time.Second

// drained reports a completed drain.
func (p *program) drained(process *connection, share api.Share, undo bool) {
	switch {
	case process.json:
		p.emit(drainReply{share, true})
	case undo:
		fmt.Fprintf(p.out, "%s: %s owns %s again.\n", share.Sale, process.server.Host, count(int64(share.Shards), "shard"))
	case share.Unready != "":
		fmt.Fprintf(p.out, "%s: %s owns no shard. It cannot forward all requests: %s\n", share.Sale, process.server.Host, share.Unready)
	default:
		fmt.Fprintf(p.out, "%s: %s owns no shard and forwards all requests.\n", share.Sale, process.server.Host)
	}
}

// drainText describes the progress of a drain.
func drainText(share api.Share, undo bool, host string) string {
	switch {
	case undo:
		return fmt.Sprintf("%s: %s has %d of %s", share.Sale, host, share.Shards, count(int64(share.Assigned), "shard"))
	case !share.HasTakers && share.Shards == 0:
		return fmt.Sprintf("%s: %s owns no shard, and it reaches no process that may own them", share.Sale, host)
	case !share.HasTakers:
		return fmt.Sprintf("%s: %s left at %s, and it reaches no process that can take them", share.Sale, count(int64(share.Shards), "shard"), host)
	}
	return fmt.Sprintf("%s: %s left at %s", share.Sale, count(int64(share.Shards), "shard"), host)
}
