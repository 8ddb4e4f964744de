// router.h - what route and hash_route share: the score of an expert and the
// weights of the chosen ones. Constants: kUsed, kScale.
/// sqrt(softplus(logit)).
DS4_DEVICE float router_score(float logit) {
  return sqrt_f32(softplus_f32(logit));
}

/// Weight of chosen expert i; scores of the chosen in selection order.
DS4_DEVICE float router_weight(const float *chosen, u32 i) {
  float sum = 0.0f;
  for (u32 j = 0; j < kUsed; ++j)
    sum += chosen[j];
  return div_f32(chosen[i], max_f32(sum, 0x1p-14f)) * kScale;
}
