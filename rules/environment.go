package rules

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxRegex bounds the program that a regular expression becomes.
const maxRegex = 1000

// maxNesting is how deep all, exists, map and the like may stand in each other
// or behind each other.
const maxNesting = 3

// newEnvironment is CEL with what rules see, and without dyn: behind that, names
// and types would not be checked before a claim comes.
func newEnvironment(p *provider, history bool) (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.CustomTypeProvider(p),
		cel.StdLib(cel.StdLibSubset((&env.LibrarySubset{}).AddExcludedFunctions(env.NewFunction("dyn"), env.NewFunction("type")))),
		cel.ParserExpressionSizeLimit(MaxExpression),
		cel.ParserRecursionLimit(50),
		cel.ExpressionNodeLimit(10_000),
		cel.RegexProgramSizeLimit(maxRegex),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(false),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(), cel.ValidateComprehensionNestingLimit(maxNesting)),
		cel.Variable(userName, types.NewObjectType(userType)),
		cel.Variable(claimName, types.NewObjectType(claimType)),
		cel.Variable(saleName, types.NewObjectType(saleType)),
		cel.Variable(variablesName, types.NewObjectType(variablesType)),
		cel.Variable(nowName, types.TimestampType),
		unitsFunction,
		cel.CostEstimatorOptions(cost.OverloadCostEstimate(unitsOverload, estimateUnits)),
	}
	if history {
		options = append(options, cel.Variable(historyName, types.NewListType(purchaseObject)))
	}
	return cel.NewCustomEnv(options...)
}

// programOptions are those of every expression. SelfCheck tries the limit under
// these very options.
func programOptions(limit uint64) []cel.ProgramOption {
	return []cel.ProgramOption{
		evalOptions,
		cel.CostTracking(callCosts{}),
		cel.CostLimit(limit),
	}
}

// evalOptions are those of what is not counted, too.
var evalOptions = cel.EvalOptions(cel.OptOptimize)

const unitsOverload = "purchases_units"

// unitsFunction is history.units(), which no combination of CEL's own functions
// can say.
var unitsFunction = cel.Function("units", cel.MemberOverload(unitsOverload,
	[]*cel.Type{types.NewListType(purchaseObject)}, types.IntType, cel.UnaryBinding(sumUnits)))

func sumUnits(list ref.Val) ref.Val {
	var sum int64
	for it := list.(traits.Lister).Iterator(); it.HasNext() == types.True; {
		p, ok := it.Next().(*purchase)
		if !ok {
			return types.NewErr("units() is of purchases only")
		}
		if p.Units > 0 && sum > math.MaxInt64-p.Units || p.Units < 0 && sum < math.MinInt64-p.Units {
			return types.NewErr("the units of the purchases are more than an int can hold")
		}
		sum += p.Units
	}
	return types.Int(sum)
}

func estimateUnits(e cost.Estimator, target *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	size := cost.EstimateSize(e, *target)
	return cost.NewCallEstimate(size.AsCost().Add(cost.FixedCostEstimate(1)), nil)
}

// callCosts tells the cost of what CEL does not know. A cost.OverloadTracker
// would look that up in a map at each call of anything. It also tells what CEL does
// know of numbers, times and bools, since CEL looks that up and allocates it.
type callCosts struct{}

// callCost is of a call whose time does not depend on its arguments.
var callCost uint64 = 1

// CallCost implements cost.ActualCostEstimator.
func (callCosts) CallCost(_, overload string, args []ref.Val, _ ref.Val) *uint64 {
	switch {
	case len(args) == 2 && fixedSize(args[0]) && fixedSize(args[1]):
		return &callCost
	case overload == unitsOverload:
		n := 1 + cost.ActualSize(args[0])
		return &n
	}
	return nil
}

func fixedSize(v ref.Val) bool {
	switch v.(type) {
	case types.Int, types.Double, types.Bool, types.Timestamp, types.Duration:
		return true
	}
	return false
}

// sizes tells CEL how large values can be. It answers only for what rules see
// and CEL cannot know; what an expression makes of that, CEL works out.
type sizes struct{}

// EstimateSize implements cost.Estimator.
func (sizes) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	path := node.Path()
	if len(path) == 0 {
		return nil
	}
	switch path[0] {
	case userName, claimName, saleName, historyName, variablesName:
		return sizeOf(node.Type())
	}
	return nil
}

func sizeOf(t *types.Type) *cost.SizeEstimate {
	switch t.Kind() {
	case types.StringKind, types.BytesKind:
		size := cost.RangedSizeEstimate(0, MaxText)
		return &size
	case types.ListKind:
		size := cost.RangedSizeEstimate(0, MaxList)
		size.Elem = sizeOf(t.Parameters()[0])
		return &size
	}
	size := cost.FixedSizeEstimate(1)
	return &size
}

// EstimateCallCost implements cost.Estimator: CEL knows its own functions. What a
// conversion to string or bytes makes is bounded here.
func (sizes) EstimateCallCost(function, overload string, _ *cost.AstNode, _ []cost.AstNode) *cost.CallEstimate {
	if function != "string" || overload == "string_to_string" || overload == "bytes_to_string" {
		return nil
	}
	// The longest is a timestamp or a double with all its digits.
	size := cost.RangedSizeEstimate(0, 40)
	return cost.NewCallEstimate(cost.FixedCostEstimate(1), &size)
}

// SelfCheck proves that an evaluation stops at the limit of its cost, under the
// options that all rules are evaluated with. Compile calls it and refuses to go
// on if it fails. It is done once a process.
func SelfCheck() error { return checkedOnce() }

var checkedOnce = sync.OnceValue(func() error { return selfCheck(programOptions) })

// selfCheckLimit is far above what each probe costs with little data, and far
// below what it costs with much.
const selfCheckLimit = 60

// probes are expressions of all kinds that count: loops, calls, texts, reading
// attributes, making lists.
var probes = []string{
	"user.list.all(x, x != 'no')",
	"user.list.map(x, x + 'a').size() > -1",
	"!history.exists(h, h.sale == 'no')",
	"history.units() > -1",
	"user.list.all(x, !x.contains('no'))",
	"user.list.all(x, !x.matches('^no+$'))",
	"user.list.all(x, !(x in ['no', 'never']))",
	"variables.far",
}

// selfCheck evaluates each probe with little data, which must succeed, and with
// much, which must stop.
func selfCheck(options func(limit uint64) []cel.ProgramOption) error {
	schema, err := NewSchema(Attribute{"list", Strings})
	if err != nil {
		return err
	}
	few, err := selfCheckInput(schema, 1)
	if err != nil {
		return err
	}
	many, err := selfCheckInput(schema, MaxList)
	if err != nil {
		return err
	}
	c, err := newCompiler(schema, true)
	if err != nil {
		return err
	}
	c.options = options(selfCheckLimit)
	c.variable(Variable{Name: "far", Expression: probes[0]})
	for _, probe := range probes {
		x := c.expression(place{"rule", "self-check", "require"}, probe, types.BoolType)
		if len(c.problems) > 0 {
			return fmt.Errorf("the self-check of CEL failed: %w", c.problems[0])
		}
		if err := selfCheckProbe(c.set, x, few, many); err != nil {
			return fmt.Errorf("the self-check of CEL failed on %q: %w; rules cannot be used with this build of salectl", probe, err)
		}
	}
	return nil
}

func selfCheckProbe(s *Set, x *expression, few, many *Input) error {
	e := evaluation{counts: true}
	e.reset(s, few)
	if val, err := e.evaluate(x); err != nil || val != types.True {
		return fmt.Errorf("with one element it is %v, %v", val, err)
	}
	e.reset(s, many)
	switch _, err := e.evaluate(x); {
	case err == nil:
		return errors.New("the limit of its cost is ignored")
	case !tooCostly(err):
		return err
	}
	return nil
}

func selfCheckInput(s *Schema, n int) (*Input, error) {
	list := make([]string, n)
	for i := range list {
		list[i] = "yes"
	}
	user, err := s.New("self-check", []Value{StringsOf(list)})
	history := make([]Purchase, n)
	for i := range history {
		history[i].Sale = "yes"
	}
	return &Input{User: user, History: history}, err
}
