package rules

import (
	"math"

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

// newCEL is CEL within the bounds of all expressions, and without dyn and type.
func newCEL(options ...cel.EnvOption) (*cel.Env, error) {
	return cel.NewCustomEnv(append(options,
		cel.StdLib(cel.StdLibSubset((&env.LibrarySubset{}).AddExcludedFunctions(env.NewFunction("dyn"), env.NewFunction("type")))),
		cel.ParserExpressionSizeLimit(MaxExpression),
		cel.ParserRecursionLimit(50),
		cel.ExpressionNodeLimit(10_000),
		cel.RegexProgramSizeLimit(maxRegex),
		cel.DefaultUTCTimeZone(true),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateRegexLiterals(),
			cel.ValidateComprehensionNestingLimit(maxNesting)),
	)...)
}

// newEnvironment is CEL with what rules see, and without dyn: behind that, names
// and types would not be checked before a claim comes.
func newEnvironment(p *provider, history bool) (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.CustomTypeProvider(p),
		cel.CrossTypeNumericComparisons(false),
		cel.ASTValidators(cel.ValidateHomogeneousAggregateLiterals()),
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
	return newCEL(options...)
}

// programOptions are those of every expression. TestEvaluationsStopAtTheirCost tries the
// limit under these very options.
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
