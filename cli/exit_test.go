package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/hashicorp/go-multierror"
	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/cli/lock"
	"salectl/executor/rehearse"
	"salectl/internal/signals"
	"salectl/planner"
	"salectl/spec"
)

func TestExitCode(t *testing.T) {
	claimed := func(o api.Outcome) error { return &outcomeError{outcome: o} }
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"nothing": {nil, 0},

		"an unknown error":         {errors.New("a wire was cut"), 1},
		"a missing file":           {fs.ErrNotExist, 1},
		"no such sale":             {ledger.ErrGone, 1},
		"a store that fails":       {planner.ErrStore, 1},
		"a server that says nope":  {claimed(api.NoSuchSale), 1},
		"no such claim":            {claimed(api.NoSuchClaim), 1},
		"an outcome of the future": {claimed("teleported"), 1},

		"changes": {errChanges, 2},

		"a refusal":            {&planner.Refusal{Reason: "the sale is closed"}, 3},
		"not confirmed":        {errUnconfirmed, 3},
		"a damaged ledger":     {ledger.ErrCorrupt, 3},
		"a failed audit":       {errAudit, 3},
		"a failed rehearsal":   {errRehearsal, 3},
		"a draw that is wrong": {errDraw, 3},
		"an entry":             {claimed(api.Entered), 0},
		"an entry not drawn":   {claimed(api.NotDrawn), 3},
		"a broken promise":     {rehearse.ErrViolated, 3},
		"a rule that said no":  {claimed(api.NotEligible), 3},
		"an expired claim":     {claimed(api.Expired), 3},
		"a cancelled claim":    {claimed(api.Cancelled), 3},
		"a refunded claim":     {claimed(api.Refunded), 3},
		"a claim not held":     {claimed(api.NotHeld), 3},
		"a claim not sold":     {claimed(api.NotSold), 3},
		"no extension":         {claimed(api.NoExtension), 3},
		"a bad command line":   {&usageError{what: "no"}, 4},
		"a bad spec":           {&spec.Problem{Message: "no"}, 4},
		"a bad plan file":      {planner.ErrBadPlan, 4},
		"a bad request":        {claimed(api.BadRequest), 4},
		"a key used otherwise": {claimed(api.KeyReused), 4},

		"a stale plan":   {planner.ErrStale, 5},
		"partly applied": {planner.ErrPartly, 6},

		"the planner's timeout": {planner.ErrTimeout, 7},
		"our own timeout":       {errTimeout, 7},
		"a deadline":            {context.DeadlineExceeded, 7},
		"overloaded":            {claimed(api.Overloaded), 7},
		"no quorum":             {claimed(api.NoQuorum), 7},
		"unknown":               {claimed(api.Unknown), 7},
		"standby":               {claimed(api.Standby), 7},
		"draining":              {claimed(api.Draining), 7},

		"sold":          {claimed(api.Sold), 0},
		"held":          {claimed(api.Held), 0},
		"sold out":      {claimed(api.SoldOut), 10},
		"none now":      {claimed(api.NoneNow), 10},
		"units taken":   {claimed(api.UnitsTaken), 10},
		"not adjacent":  {claimed(api.NotAdjacent), 10},
		"limit reached": {claimed(api.LimitReached), 11},
		"not open":      {claimed(api.NotOpen), 12},
		"paused":        {claimed(api.Paused), 12},
		"closed":        {claimed(api.Closed), 12},

		"a failed threshold":                           {shown{errThreshold}, 13},
		"a failed threshold beside a failed rehearsal": {shown{errors.Join(errThreshold, errRehearsal)}, 3},

		"interrupted": {signals.ErrInterrupted, 130},

		"a lock that was refused":        {&lock.ExitError{Code: 99, Err: quorum.ErrRefused}, 99},
		"a command that failed":          {shown{&lock.ExitError{Code: 42, Err: errors.New("exit status 42")}}, 42},
		"a command that cannot be run":   {&lock.ExitError{Code: 126, Err: fs.ErrPermission}, 126},
		"a command that is not there":    {&lock.ExitError{Code: 127, Err: fs.ErrNotExist}, 127},
		"a command beside its own cause": {fmt.Errorf("a: %w", &lock.ExitError{Code: 42, Err: planner.ErrStale}), 42},

		"wrapped":                    {fmt.Errorf("a: %w", fmt.Errorf("b: %w", planner.ErrStale)), 5},
		"wrapped and shown":          {fmt.Errorf("a: %w", shown{fmt.Errorf("b: %w", planner.ErrPartly)}), 6},
		"urfave's, wrapped":          {fmt.Errorf("a: %w", urfave.Exit("b", 7)), 7},
		"wrapped beside its cause":   {fmt.Errorf("%w: %w", planner.ErrPartly, fs.ErrPermission), 6},
		"partly, for lack of time":   {fmt.Errorf("%w: %w", planner.ErrPartly, context.DeadlineExceeded), 6},
		"interrupted while applying": {fmt.Errorf("%w: %w", signals.ErrInterrupted, planner.ErrPartly), 130},
		"joined with a close":        {errors.Join(planner.ErrStale, fs.ErrClosed), 5},
		"several problems":           {multierror.Append(nil, &spec.Problem{}, &spec.Problem{}), 4},
		"a failure beside a refused claim": {
			multierror.Append(nil, claimed(api.SoldOut), errors.New("a wire was cut")), 1,
		},
		"a broken invariant beside all else": {
			multierror.Append(nil, planner.ErrStale, errTimeout, fmt.Errorf("shard 3: %w", ledger.ErrCorrupt), planner.ErrPartly), 3,
		},
		"a multierror in a multierror": {
			multierror.Append(nil, errChanges, fmt.Errorf("b: %w", multierror.Append(nil, planner.ErrStale, errChanges))), 5,
		},
		"changes for one of two": {multierror.Append(nil, errChanges), 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ExitCode(test.err); got != test.want {
				t.Errorf("ExitCode(%v) = %d, want %d", test.err, got, test.want)
			}
		})
	}
}

// Every code has a rank, or several sales could end with one that is not theirs.
func TestWorstHasEveryCode(t *testing.T) {
	want := []int{
		exitError, exitChanges, exitRefused, exitUsage, exitStale, exitPartly, exitTimeout,
		exitDown, exitDegraded, exitSoldOut, exitLimit, exitNotOpen, exitThreshold, exitInterrupted,
	}
	got := slices.Sorted(slices.Values(worst))
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("worst has the codes %v, want %v", got, want)
	}
}
