//! Operations with a gradient of their own, composed of candle's kernels.
//!
//! candle's automatic gradient keeps every intermediate result until the step ends, and computes
//! gradients for constants as well. For what is as large as a square of the sequence or as the
//! vocabulary that would double the memory, so these few say themselves what they need.

use candle_core::backend::BackendStorage;
use candle_core::op::{Add, Div, Exp, Log, Mul, ReduceOp, Sub};
use candle_core::{
    CpuStorage, CudaStorage, CustomOp2, D, Layout, MetalStorage, Result, Shape, Tensor,
};

/// `values` times `factor`, which is broadcast and has no gradient.
pub(super) fn scale(values: &Tensor, factor: &Tensor) -> Result<Tensor> {
    values.apply_op2(&factor.broadcast_as(values.shape())?, Scale)
}

/// Softmax over the last dimension of `scores + mask`; the mask has no gradient.
pub(super) fn masked_softmax(scores: &Tensor, mask: &Tensor) -> Result<Tensor> {
    scores.apply_op2(&mask.broadcast_as(scores.shape())?, MaskedSoftmax)
}

/// For each row of `logits`, the negative logarithm of its target's probability.
pub(super) fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    logits.apply_op2(&targets.unsqueeze(1)?, CrossEntropy)
}

struct Scale;
struct MaskedSoftmax;
struct CrossEntropy;

/// An operation whose forward pass is written once for every device.
trait Forward {
    fn forward<S: BackendStorage>(one: (&S, &Layout), two: (&S, &Layout)) -> Result<(S, Shape)>;
}

impl Forward for Scale {
    fn forward<S: BackendStorage>(one: (&S, &Layout), two: (&S, &Layout)) -> Result<(S, Shape)> {
        Ok((one.0.binary_impl::<Mul>(two.0, one.1, two.1)?, one.1.shape().clone()))
    }
}

impl Forward for MaskedSoftmax {
    fn forward<S: BackendStorage>(one: (&S, &Layout), two: (&S, &Layout)) -> Result<(S, Shape)> {
        let shape = one.1.shape();
        let whole = Layout::contiguous(shape);
        let masked = one.0.binary_impl::<Add>(two.0, one.1, two.1)?;
        let (shifted, _) = shifted(&masked, &whole)?;
        drop(masked);
        let powers = shifted.unary_impl::<Exp>(&whole)?;
        drop(shifted);
        let (sums, narrow) = reduce(&powers, &whole, ReduceOp::Sum)?;
        let shares = powers.binary_impl::<Div>(&sums, &whole, &narrow.broadcast_as(shape)?)?;
        Ok((shares, shape.clone()))
    }
}

impl Forward for CrossEntropy {
    fn forward<S: BackendStorage>(one: (&S, &Layout), two: (&S, &Layout)) -> Result<(S, Shape)> {
        let (logits, layout) = one;
        let rows = layout.dims()[0];
        let whole = Layout::contiguous(layout.shape());
        let (shifted, narrow) = shifted(logits, layout)?;
        let picked = shifted.gather(&whole, two.0, two.1, 1)?;
        let powers = shifted.unary_impl::<Exp>(&whole)?;
        let (sums, _) = reduce(&powers, &whole, ReduceOp::Sum)?;
        let logs = sums.unary_impl::<Log>(&narrow)?;
        let losses = logs.binary_impl::<Sub>(&picked, &narrow, &narrow)?;
        Ok((losses, Shape::from(rows)))
    }
}

/// Values minus the largest of their row, so that no exponential overflows; and a row's layout.
fn shifted<S: BackendStorage>(values: &S, layout: &Layout) -> Result<(S, Layout)> {
    let (largest, narrow) = reduce(values, layout, ReduceOp::Max)?;
    let wide = narrow.broadcast_as(layout.shape())?;
    Ok((values.binary_impl::<Sub>(&largest, layout, &wide)?, narrow))
}

/// Reduces the last dimension to one value.
fn reduce<S: BackendStorage>(values: &S, layout: &Layout, op: ReduceOp) -> Result<(S, Layout)> {
    let last = layout.dims().len() - 1;
    let mut dims = layout.dims().to_vec();
    dims[last] = 1;
    Ok((values.reduce_op(op, layout, &[last])?, Layout::contiguous(dims)))
}

/// Forwards candle's three entry points to [`Forward`].
macro_rules! everywhere {
    ($name:literal) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn cpu_fwd(
            &self,
            one: &CpuStorage,
            one_layout: &Layout,
            two: &CpuStorage,
            two_layout: &Layout,
        ) -> Result<(CpuStorage, Shape)> {
            Self::forward((one, one_layout), (two, two_layout))
        }

        fn cuda_fwd(
            &self,
            one: &CudaStorage,
            one_layout: &Layout,
            two: &CudaStorage,
            two_layout: &Layout,
        ) -> Result<(CudaStorage, Shape)> {
            Self::forward((one, one_layout), (two, two_layout))
        }

        fn metal_fwd(
            &self,
            one: &MetalStorage,
            one_layout: &Layout,
            two: &MetalStorage,
            two_layout: &Layout,
        ) -> Result<(MetalStorage, Shape)> {
            Self::forward((one, one_layout), (two, two_layout))
        }
    };
}

type Gradients = (Option<Tensor>, Option<Tensor>);

impl CustomOp2 for Scale {
    everywhere!("scale");

    fn bwd(&self, _: &Tensor, factor: &Tensor, _: &Tensor, out: &Tensor) -> Result<Gradients> {
        Ok((Some(out.mul(factor)?), None))
    }
}

impl CustomOp2 for MaskedSoftmax {
    everywhere!("masked-softmax");

    fn bwd(&self, _: &Tensor, _: &Tensor, shares: &Tensor, out: &Tensor) -> Result<Gradients> {
        let shares = shares.detach();
        let weighted = out.mul(&shares)?;
        let sums = weighted.sum_keepdim(D::Minus1)?;
        Ok((Some(weighted.sub(&shares.broadcast_mul(&sums)?)?), None))
    }
}

impl CustomOp2 for CrossEntropy {
    everywhere!("cross-entropy");

    fn bwd(
        &self,
        logits: &Tensor,
        targets: &Tensor,
        _: &Tensor,
        out: &Tensor,
    ) -> Result<Gradients> {
        let logits = logits.detach();
        let out = out.unsqueeze(1)?;
        let powers = logits.broadcast_sub(&logits.max_keepdim(1)?)?.exp()?;
        let weights = out.div(&powers.sum_keepdim(1)?)?;
        let shares = powers.broadcast_mul(&weights)?;
        Ok((Some(shares.scatter_add(targets, &out.neg()?, 1)?), None))
    }
}
