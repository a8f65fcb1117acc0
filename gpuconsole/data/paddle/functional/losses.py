"""Losses that Paddle builds of operators, as those of its CPU build follow one another."""

import paddle
from paddle.nn import functional as F  # noqa: N812


def reduced(loss, reduction):
    if reduction == "mean":
        return paddle.mean(loss)
    if reduction == "sum":
        return paddle.sum(loss)
    return loss


def poisson_nll_loss(input, label, log_input=True, full=False, epsilon=1e-8, reduction="mean",
                     name=None):  # fmt: skip
    if log_input:
        loss = paddle.exp(input) - label * input
    else:
        loss = input - label * paddle.log(input + epsilon)
    if full:
        near = label * paddle.log(label) - label + 0.5 * paddle.log(6.283 * label)
        loss = loss + paddle.where(label > 1, near, paddle.zeros_like(near))
    return reduced(loss, reduction)


def soft_margin_loss(input, label, reduction="mean", name=None):
    label = paddle.cast(label, input.dtype)
    loss = paddle.log(1 + paddle.exp(-label * input))
    return reduced(loss, reduction)


def multi_label_soft_margin_loss(input, label, weight=None, reduction="mean", name=None):
    loss = -(label * F.log_sigmoid(input) + (1 - label) * F.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    loss = loss.mean(axis=-1)
    return reduced(loss, reduction)


def dice_loss(input, label, epsilon=1e-5, name=None):
    label = paddle.squeeze(label, [-1])
    label = F.one_hot(label, input.shape[-1])
    axes = list(range(1, len(input.shape)))
    common = paddle.sum(input * label, axis=axes)
    both = paddle.sum(input, axis=axes) + paddle.sum(label, axis=axes)
    score = 1 - common * 2 / (both + epsilon)
    return paddle.mean(score)


def margin_ranking_loss(input, other, label, margin=0.0, reduction="mean", name=None):
    loss = paddle.subtract(other, input)
    loss = paddle.multiply(loss, label)
    if margin != 0.0:
        loss = paddle.add(loss, paddle.to_tensor([margin], dtype=loss.dtype))
    loss = F.relu(loss)
    return reduced(loss, reduction)


def pairwise_distance(x, y, p=2.0, epsilon=1e-6, keepdim=False, name=None):
    gap = paddle.subtract(x, y)
    if epsilon != 0.0:
        epsilon = paddle.to_tensor([epsilon], dtype=gap.dtype)
        gap = paddle.add(gap, epsilon)
    return paddle.norm(gap, p, -1, keepdim)


def triplet_margin_loss(input, positive, negative, margin=1.0, p=2, epsilon=1e-6, swap=False,
                        reduction="mean", name=None):  # fmt: skip
    near = pairwise_distance(input, positive, p, epsilon)
    far = pairwise_distance(input, negative, p, epsilon)
    if swap:
        between = pairwise_distance(positive, negative, p, epsilon)
        far = paddle.minimum(far, between)
    loss = paddle.clip(near - far + margin, min=0.0)
    return reduced(loss, reduction)


def triplet_margin_with_distance_loss(input, positive, negative, distance_function=None,
                                      margin=1.0, swap=False, reduction="mean",
                                      name=None):  # fmt: skip
    if distance_function is None:
        distance_function = pairwise_distance
    near = distance_function(input, positive)
    far = distance_function(input, negative)
    if swap:
        between = distance_function(positive, negative)
        far = paddle.minimum(far, between)
    loss = paddle.clip(near - far + margin, min=0.0)
    return reduced(loss, reduction)


def cosine_embedding_loss(input1, input2, label, margin=0, reduction="mean", name=None):
    product = (input1 * input2).sum(axis=-1)
    first = paddle.square(input1).sum(axis=-1) + 1e-11
    second = paddle.square(input2).sum(axis=-1) + 1e-11
    lengths = paddle.sqrt(first * second)
    angle = product / lengths
    zeros = paddle.zeros_like(angle)
    alike = 1 - angle
    apart = paddle.clip(angle - margin, min=0)
    ones = paddle.where(label == 1, alike, zeros)
    others = paddle.where(label == -1, apart, zeros)
    loss = ones + others
    return reduced(loss, reduction)


def hinge_embedding_loss(input, label, margin=1.0, reduction="mean", name=None):
    zero = paddle.zeros([1], dtype=input.dtype)
    loss = paddle.where(label == 1.0, input, zero) + paddle.where(
        label == -1.0, F.relu(margin - input), zero
    )
    return reduced(loss, reduction)


def gaussian_nll_loss(input, label, variance, full=False, epsilon=1e-6, reduction="mean",
                      name=None):  # fmt: skip
    if variance.shape != input.shape and len(variance.shape) < len(input.shape):
        variance = paddle.unsqueeze(variance, -1)
    variance = variance.clone()
    with paddle.no_grad():
        variance = paddle.clip(variance, min=epsilon)
    loss = 0.5 * (paddle.log(variance) + paddle.square(input - label) / variance)
    if full:
        loss = loss + 0.919
    return reduced(loss, reduction)


def multi_margin_loss(input, label, p=1, margin=1.0, weight=None, reduction="mean", name=None):
    label = label.reshape((-1, 1))
    own = paddle.index_sample(input, label)
    if weight is not None:
        weight = paddle.gather(weight, label, axis=0).reshape((-1, 1))
        loss = (
            paddle.mean(weight * paddle.pow(paddle.clip(margin - own + input, min=0.0), p), axis=1)
            - (weight * (margin**p / input.shape[1])).squeeze()
        )
    else:
        loss = (
            paddle.mean(paddle.pow(paddle.clip(margin - own + input, min=0.0), p), axis=1)
            - margin**p / input.shape[1]
        )
    return reduced(loss, reduction)


def npair_loss(anchor, positive, labels, l2_reg=0.002):
    batch = labels.shape[0]
    labels = paddle.reshape(labels, shape=[batch, 1])
    labels = paddle.tile(labels, repeat_times=[1, batch])
    labels = paddle.equal(labels, paddle.transpose(labels, perm=[1, 0])).astype("float32")
    labels = labels / paddle.sum(labels, axis=1, keepdim=True)
    length = paddle.mean(paddle.sum(paddle.square(anchor), 1)) + paddle.mean(
        paddle.sum(paddle.square(positive), 1)
    )
    length = length * 0.25 * l2_reg
    alike = paddle.matmul(anchor, positive, transpose_y=True)
    entropy = F.softmax_with_cross_entropy(alike, labels, soft_label=True)
    weighted = paddle.sum(labels * entropy, 0)
    loss = paddle.mean(weighted)
    return length + loss


def sigmoid_focal_loss(logit, label, normalizer=None, alpha=0.25, gamma=2.0, reduction="sum",
                       name=None):  # fmt: skip
    one = paddle.full(logit.shape, 1.0, dtype=logit.dtype)
    loss = F.binary_cross_entropy_with_logits(logit, label, reduction="none")
    pred = F.sigmoid(logit)
    hit = paddle.add(
        paddle.multiply(pred, label),
        paddle.multiply(paddle.subtract(one, pred), paddle.subtract(one, label)),
    )
    alpha = paddle.to_tensor(alpha, dtype=loss.dtype)
    share = paddle.add(
        paddle.multiply(alpha, label),
        paddle.multiply(paddle.subtract(one, alpha), paddle.subtract(one, label)),
    )
    loss = paddle.multiply(share, loss)
    focus = paddle.pow(paddle.subtract(one, hit), gamma)
    loss = paddle.multiply(focus, loss)
    if normalizer is not None:
        loss = paddle.divide(loss, normalizer)
    return reduced(loss, reduction)


def kl_div(input, label, reduction="mean", log_target=False, name=None):
    loss = F.kl_div_kernel(input, label)
    if reduction == "mean":
        loss = paddle.mean(loss)
    elif reduction == "sum":
        loss = paddle.sum(loss)
    elif reduction == "batchmean":
        batch = input.shape[0]
        loss = paddle.sum(loss) / batch
    return loss


def smooth_l1_loss(input, label, reduction="mean", delta=1.0, is_huber=True, name=None):
    loss = F.huber_kernel(input, label)
    if not is_huber:
        loss = loss / delta
    return reduced(loss, reduction)


def ctc_loss(log_probs, labels, input_lengths, label_lengths, blank=0, reduction="mean",
             norm_by_times=False, zero_infinity=False):  # fmt: skip
    loss = F.ctc_kernel(log_probs, labels, input_lengths)
    loss = paddle.squeeze(loss, [-1])
    if zero_infinity:
        mask = paddle.isinf(loss)
        zero = paddle.zeros_like(loss)
        loss = paddle.where(mask, zero, loss)
    if reduction == "mean":
        loss = paddle.mean(loss / label_lengths.astype(loss.dtype))
    elif reduction == "sum":
        loss = paddle.sum(loss)
    return loss


def mse_loss(input, label, reduction="mean", name=None):
    loss = paddle.square(paddle.subtract(input, label))
    return reduced(loss, reduction)


def square_error_cost(input, label):
    gap = paddle.subtract(input, label)
    return paddle.square(gap)


def l1_loss(input, label, reduction="mean", name=None):
    loss = paddle.abs(paddle.subtract(input, label))
    return reduced(loss, reduction)


def binary_cross_entropy(input, label, weight=None, reduction="mean", name=None):
    loss = F.bce_kernel(input, label)
    if weight is not None:
        loss = paddle.multiply(loss, weight)
    return reduced(loss, reduction)


def binary_cross_entropy_with_logits(logit, label, weight=None, reduction="mean",
                                     pos_weight=None, name=None):  # fmt: skip
    one = paddle.full([1], 1.0, dtype=logit.dtype)
    if pos_weight is not None:
        pos_weight = paddle.add(paddle.multiply(label, paddle.subtract(pos_weight, one)), one)
    loss = F.bce_logits_kernel(logit, label, pos_weight)
    if weight is not None:
        loss = paddle.multiply(loss, weight)
    return reduced(loss, reduction)


def cross_entropy(input, label, weight=None, ignore_index=-100, reduction="mean",
                  soft_label=False, axis=-1, use_softmax=True, label_smoothing=0.0,
                  name=None):  # fmt: skip
    flat = len(input.shape) - 1 == len(label.shape)
    if flat:
        label = paddle.unsqueeze(label, axis=axis)
    if label_smoothing > 0.0:
        soft_label = True
        if flat:
            label = paddle.squeeze(label, axis=axis)
            label = F.one_hot(label, input.shape[-1])
        label = F.label_smooth(label, epsilon=label_smoothing)
        label = label.astype(input.dtype)
        flat = False
    if not soft_label:
        valid = paddle.cast(label != ignore_index, dtype=label.dtype) * label
    _, loss = F.cross_entropy_kernel(input, label, soft_label, axis)
    if weight is not None:
        if soft_label:
            picked = paddle.matmul(paddle.cast(label, weight.dtype), weight, transpose_y=True)
            weights = paddle.reshape(picked, loss.shape)
        else:
            mask = paddle.cast(label != ignore_index, loss.dtype)
            if len(mask.shape) > 1 and mask.shape[axis] == 1:
                mask = paddle.squeeze(mask, axis)
            if axis != -1 and axis != len(valid.shape) - 1:
                rank = len(valid.shape)
                order = [one for one in range(rank) if one != axis % rank] + [axis % rank]
                picked = paddle.gather_nd(weight, valid.transpose(order))
            else:
                picked = paddle.gather_nd(weight, valid)
            picked = paddle.multiply(picked, mask)
            weights = paddle.reshape(picked, label.shape)
        loss = paddle.multiply(loss, weights)
    if reduction == "sum":
        return paddle.sum(loss)
    if reduction == "mean":
        if ignore_index >= 0:
            total = paddle.sum(loss)
            mask = label != ignore_index
            if weight is None:
                mask = paddle.cast(mask, dtype=total.dtype)
                number = paddle.sum(mask)
            else:
                mask = paddle.cast(mask, weights.dtype)
                kept = paddle.multiply(mask, weights)
                number = paddle.sum(kept)
            return total / (number + (number == 0.0).astype(number.dtype))
        if weight is not None:
            total = paddle.sum(loss)
            number = paddle.sum(weights)
            return total / (number + (number == 0.0).astype(number.dtype))
        return paddle.mean(loss)
    if flat:
        loss = paddle.squeeze(loss, axis=axis)
    return loss


def softmax_with_cross_entropy(logits, label, soft_label=False, ignore_index=-100,
                               numeric_stable_mode=True, return_softmax=False,
                               axis=-1):  # fmt: skip
    if len(logits.shape) - 1 == len(label.shape):
        label = paddle.unsqueeze(label, axis=axis)
    softmax, loss = F.cross_entropy_kernel(logits, label, soft_label, axis)
    if return_softmax:
        return loss, softmax
    return loss
